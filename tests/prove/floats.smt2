; Clamping, rounding to the grid and rounding down, on all IEEE floats: each query looks for a
; counterexample and is to answer unsat.  A line "; FILE: TEXT" is the text of the line of FILE that
; stands below in the solver's language.
(set-logic QF_BVFP)
(define-sort Double () (_ FloatingPoint 11 53))
(define-sort Single () (_ FloatingPoint 8 24))
(define-sort Word () (_ BitVec 64))

(declare-const value Double)
(declare-const other Double)
(declare-const limit Double)
(declare-const step Double)
(declare-const noise Word)
(declare-const word Word)

(define-fun usable ((x Double)) Bool (and (not (fp.isNaN x)) (not (fp.isInfinite x))))
; The operation has the exact result: rounded up, it is what it is rounded down.
(define-fun exact_difference ((a Double) (b Double)) Bool
    (fp.eq (fp.sub RTP a b) (fp.sub RTN a b)))
(define-fun same ((a Double) (b Double)) Bool (or (fp.eq a b) (and (fp.isNaN a) (fp.isNaN b))))

; ---- Clamping

; csrc/epochs_body.h: value = value > limit ? limit : value;
; csrc/epochs_body.h: return value < -limit ? -limit : value;
; csrc/loss_blocks.h: v = v > limit ? limit : v;
; csrc/loss_blocks.h: s[i] = v < -limit ? -limit : v;
(define-fun below ((x Double) (most Double)) Double (ite (fp.gt x most) most x))
(define-fun clamp ((x Double) (most Double)) Double
    (ite (fp.lt (below x most) (fp.neg most)) (fp.neg most) (below x most)))

; It is within the limit, infinite values and limits and a limit of 0 included.
(push)
(assert (fp.geq limit (fp #b0 #b00000000000 #x0000000000000)))
(assert (not (fp.isNaN value)))
(assert (not (fp.leq (fp.abs (clamp value limit)) limit)))
(check-sat-using qffpbv)
(pop)
; NaN stays NaN, so that a sum with it is refused.
(push)
(assert (fp.isNaN value))
(assert (not (fp.isNaN (clamp value limit))))
(check-sat-using qffpbv)
(pop)
; What is within stays as it is.
(push)
(assert (fp.leq (fp.abs value) limit))
(assert (not (= (clamp value limit) value)))
(check-sat-using qffpbv)
(pop)
; It keeps the order: clamping moves no two values apart.
(push)
(assert (fp.geq limit (fp #b0 #b00000000000 #x0000000000000)))
(assert (fp.leq value other))
(assert (not (fp.leq (clamp value limit) (clamp other limit))))
(check-sat-using qffpbv)
(pop)

; csrc/loss_blocks.h: value[i] = v > loss_clip ? loss_clip : v;
(push)
(assert (not (fp.isNaN limit)))
(assert (not (fp.isNaN value)))
(assert (not (fp.leq (below value limit) limit)))
(check-sat-using qffpbv)
(pop)

; ---- Factors in single precision, rounded down

; dpfast/problem.py: rounded = exact.astype(np.float32)
; dpfast/problem.py: too_large = rounded > exact
; dpfast/problem.py: rounded[too_large] = np.nextafter(rounded[too_large], np.float32(0.0))
(declare-const bits (_ BitVec 32))
(define-fun widened ((b (_ BitVec 32))) Double
    ((_ to_fp 11 53) RNE ((_ to_fp 8 24) b)))
(define-fun rounded_down ((b (_ BitVec 32))) (_ BitVec 32)
    (ite (fp.gt (widened b) value) (bvsub b #x00000001) b))

; A positive number becomes one that is no larger and not negative ...
(push)
(assert (fp.gt value (fp #b0 #b00000000000 #x0000000000000)))
(assert (= ((_ to_fp 8 24) bits) ((_ to_fp 8 24) RNE value)))
(assert (not (and (fp.leq (widened (rounded_down bits)) value)
                  (fp.geq (widened (rounded_down bits)) (fp #b0 #b00000000000 #x0000000000000)))))
(check-sat-using qffpbv)
(pop)
; ... and the largest one of its kind: the next number in single precision is larger.
(push)
(assert (fp.gt value (fp #b0 #b00000000000 #x0000000000000)))
(assert (not (fp.isInfinite value)))
(assert (= ((_ to_fp 8 24) bits) ((_ to_fp 8 24) RNE value)))
(assert (not (fp.gt (widened (bvadd (rounded_down bits) #x00000001)) value)))
(check-sat-using qffpbv)
(pop)

; ---- Rounding to the grid

; csrc/private_epochs.c: double steps = rint(sum[j] / grid); /* exact but for overflow, which is clamped */
; csrc/private_epochs.c: steps = steps < limit ? steps : limit;
; csrc/private_epochs.c: steps = steps > -limit ? steps : -limit;
; dpfast/mechanisms/_grid.py: steps = values / self.step
; dpfast/mechanisms/_grid.py: return np.rint(np.clip(steps, -limit, limit, out=steps), out=steps).astype(np.int64)
(define-fun range () Double ((_ to_fp 11 53) RNE 2305843009213693952.0)) ; 2^61
(define-fun half () Double ((_ to_fp 11 53) RNE 0.5))
(define-fun within ((x Double)) Double
    (let ((y (ite (fp.lt x range) x range))) (ite (fp.gt y (fp.neg range)) y (fp.neg range))))
(define-fun round_first ((x Double)) Double (within (fp.roundToIntegral RNE x)))
(define-fun clip_first ((x Double)) Double (fp.roundToIntegral RNE (within x)))

; The kernel rounds before it clamps, the mechanism after: that is the same.
(push)
(assert (not (fp.isNaN value)))
(assert (not (fp.eq (round_first value) (clip_first value))))
(check-sat-using qffpbv)
(pop)
; An integer, at most 2^61 in size, and NaN becomes one, too (it is refused elsewhere).
(push)
(assert (not (and (fp.leq (fp.abs (round_first value)) range)
                  (fp.eq (round_first value) (fp.roundToIntegral RTZ (round_first value))))))
(check-sat-using qffpbv)
(pop)
; Of what is in the range nothing moves by more than half a step; the difference is exact.
(push)
(assert (fp.leq (fp.abs value) range))
(assert (not (and (exact_difference (round_first value) value)
                  (fp.leq (fp.abs (fp.sub RNE (round_first value) value)) half))))
(check-sat-using qffpbv)
(pop)
; It keeps the order: clamping moves no two values apart.
(push)
(assert (fp.leq value other))
(assert (not (fp.leq (round_first value) (round_first other))))
(check-sat-using qffpbv)
(pop)
; As an integer of 64 bits, to which noise of at most 2^62 steps is added, it does not overflow.
(push)
(assert (bvsle (bvneg #x2000000000000000) word))
(assert (bvsle word #x2000000000000000))
(assert (bvsle (bvneg #x4000000000000000) noise))
(assert (bvsle noise #x4000000000000000))
(assert (not (= ((_ sign_extend 1) (bvadd word noise))
                (bvadd ((_ sign_extend 1) word) ((_ sign_extend 1) noise)))))
(check-sat-using qffpbv)
(pop)

; The step is a power of two: the quotient is exact, or overflows and is clamped, or it is so small
; that it is rounded to zero.
(push)
(assert (usable value))
(assert (= ((_ extract 51 0) word) #x0000000000000))
(assert (= ((_ extract 63 63) word) #b0))
(assert (bvugt ((_ extract 62 52) word) #b00000000000))
(assert (bvult ((_ extract 62 52) word) #b11111111111))
(assert (= step ((_ to_fp 11 53) word)))
(assert (not (or (fp.eq (fp.div RTP value step) (fp.div RTN value step))
                 (fp.isInfinite (fp.div RNE value step))
                 (fp.lt (fp.abs (fp.div RTP value step)) half))))
(check-sat-using qffpbv)
(pop)

; csrc/private_epochs_body.h: const double magic = 0x1.8p52, per_grid = 1.0 / grid;
; csrc/private_epochs_body.h: const double shifted = value + magic;
; csrc/private_epochs_body.h: out[j] = (shifted - magic) * grid;
(define-fun magic () Double ((_ to_fp 11 53) RNE 6755399441055744.0)) ; 1.5 2^52
(define-fun shifted ((x Double)) Double (fp.add RNE x magic))
; Up to 2^51 the first sum is in [2^52, 2^53], where a float is an integer: it is rounded to one ...
(push)
(assert (fp.leq (fp.abs value) ((_ to_fp 11 53) RNE 2251799813685248.0)))
(assert (not (and (fp.leq ((_ to_fp 11 53) RNE 4503599627370496.0) (shifted value))
                  (fp.leq (shifted value) ((_ to_fp 11 53) RNE 9007199254740992.0))
                  (fp.eq (shifted value) (fp.roundToIntegral RTZ (shifted value))))))
(check-sat-using qffpbv)
(pop)
; ... from which the difference takes nothing; it is an integer again.
(push)
(assert (fp.leq ((_ to_fp 11 53) RNE 4503599627370496.0) value))
(assert (fp.leq value ((_ to_fp 11 53) RNE 9007199254740992.0)))
(assert (not (and (exact_difference value magic)
                  (fp.eq (fp.sub RNE value magic)
                         (fp.roundToIntegral RTZ (fp.sub RNE value magic))))))
(check-sat-using qffpbv)
(pop)
; Beyond, a multiple of a half comes out, or of more.
(define-fun twice ((x Double)) Double (fp.add RNE x x))
(push)
(assert (usable value))
(assert (not (or (fp.isInfinite (shifted value))
                 (fp.eq (twice (fp.sub RNE (shifted value) magic))
                        (fp.roundToIntegral RTZ (twice (fp.sub RNE (shifted value) magic)))))))
(check-sat-using qffpbv)
(pop)

; ---- Uniform numbers

; csrc/samplers_continuous.c: if (word >= UINT64_C(1) << 53) {
; csrc/samplers_continuous.c: word &= ~((UINT64_C(1) << (11 - leading_zeros(word))) - 1);
; csrc/samplers_continuous.c: return (double)word * 0x1p-64;
; With z leading zeros the lowest 11 - z bits are cleared, so that the conversion is exact.
(declare-const zeros Word)
(define-fun cleared () Word
    (bvand word (bvnot (bvsub (bvshl #x0000000000000001 (bvsub #x000000000000000b zeros))
                              #x0000000000000001))))
(push)
(assert (bvuge word #x0020000000000000))
(assert (bvule zeros #x000000000000000a))
(assert (= (bvlshr word (bvsub #x000000000000003f zeros)) #x0000000000000001))
(assert (not (and (fp.eq ((_ to_fp_unsigned 11 53) RTP cleared)
                         ((_ to_fp_unsigned 11 53) RTN cleared))
                  (bvule cleared word)
                  (fp.gt ((_ to_fp_unsigned 11 53) RNE cleared)
                         (fp #b0 #b00000000000 #x0000000000000)))))
(check-sat-using qffpbv)
(pop)
