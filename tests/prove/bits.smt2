; What batches.c counts on its words, on bit vectors: each (check-sat) looks for a counterexample and
; is to answer unsat.  The definitions are those of batches.c, line by line.
(set-logic QF_BV)

(define-fun pairs ((x (_ BitVec 64))) (_ BitVec 64)
    (bvsub x (bvand (bvlshr x #x0000000000000001) #x5555555555555555)))
(define-fun fours ((x (_ BitVec 64))) (_ BitVec 64)
    (bvadd (bvand x #x3333333333333333)
           (bvand (bvlshr x #x0000000000000002) #x3333333333333333)))
(define-fun bytes ((x (_ BitVec 64))) (_ BitVec 64)
    (bvand (bvadd x (bvlshr x #x0000000000000004)) #x0f0f0f0f0f0f0f0f))
(define-fun popcount ((x (_ BitVec 64))) (_ BitVec 64)
    (bvlshr (bvmul (bytes (fours (pairs x))) #x0101010101010101) #x0000000000000038))
(define-fun trailing_zeros ((x (_ BitVec 64))) (_ BitVec 64)
    (popcount (bvand (bvnot x) (bvsub x #x0000000000000001))))
(define-fun bit ((x (_ BitVec 64)) (i (_ BitVec 64))) (_ BitVec 64)
    (bvand (bvlshr x i) #x0000000000000001))

(declare-const x (_ BitVec 64))
(declare-const y (_ BitVec 64))
(declare-const i (_ BitVec 64))

; A number of i bits has i ones at most.
(push)
(assert (bvule i #x0000000000000040))
(assert (= (bvlshr x i) #x0000000000000000))
(assert (bvugt (popcount x) i))
(check-sat)
(pop)

; Clearing a one takes one from the count, and no ones count as none: so popcount counts the ones.
(push)
(assert (bvult i #x0000000000000040))
(assert (= (bit x i) #x0000000000000001))
(assert (not (= (bvadd (popcount (bvxor x (bvshl #x0000000000000001 i))) #x0000000000000001)
                (popcount x))))
(check-sat)
(pop)
(push)
(assert (not (= (popcount #x0000000000000000) #x0000000000000000)))
(check-sat)
(pop)

; trailing_zeros names a bit of x that is one, while all below it are not: the lowest of the ones.
(push)
(assert (not (= x #x0000000000000000)))
(assert (not (and (bvult (trailing_zeros x) #x0000000000000040)
                  (= (bit x (trailing_zeros x)) #x0000000000000001)
                  (= (bvand x (bvsub (bvshl #x0000000000000001 (trailing_zeros x))
                                     #x0000000000000001)) #x0000000000000000))))
(check-sat)
(pop)

; left & (left - 1) clears that bit and no other.
(push)
(assert (not (= x #x0000000000000000)))
(assert (not (= (bvand x (bvsub x #x0000000000000001))
                (bvxor x (bvshl #x0000000000000001 (trailing_zeros x))))))
(check-sat)
(pop)

; A number of i bits remains one when its lowest one is cleared, and when another such number is added
; to it bit by bit.  If it is not 0, its lowest one is below i.
(push)
(assert (bvult i #x0000000000000040))
(assert (= (bvlshr x i) #x0000000000000000))
(assert (= (bvlshr y i) #x0000000000000000))
(assert (not (and (= (bvlshr (bvand x (bvsub x #x0000000000000001)) i) #x0000000000000000)
                  (= (bvlshr (bvor x y) i) #x0000000000000000))))
(check-sat)
(pop)
(push)
(assert (bvult i #x0000000000000040))
(assert (not (= x #x0000000000000000)))
(assert (= (bvlshr x i) #x0000000000000000))
(assert (bvuge (trailing_zeros x) i))
(check-sat)
(pop)
