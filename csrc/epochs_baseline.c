/* The epochs, for the compiler's default target. */
#include "csr_ops.h"
#include "epochs_ops.h"
#include "loss_list.h"
#include "private_epochs_ops.h"

#include "isa_headers.h"

#include "isa_baseline_begin.h"

#include "epochs_stamp.h"

#include "isa_baseline_end.h"
