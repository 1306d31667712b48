/* The epochs, for AVX-512. */
#include "csr_ops.h"
#include "epochs_ops.h"
#include "loss_list.h"
#include "private_epochs_ops.h"

#include "isa_headers.h"

#include "isa_avx512_begin.h"

#include "epochs_stamp.h"

#include "isa_avx512_end.h"
