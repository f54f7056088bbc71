/* Comparing the tensors of a followed step with those of its variant, and making those that its calls return. */
#ifndef HAUL_RECORD_FOLLOW_MATCH_H
#define HAUL_RECORD_FOLLOW_MATCH_H

#include "record/follow/follow.h"

/* True if the program passes the tensor that the variant refers to. Binds memory from outside. */
bool haul__follow_is_reference(haul__following *f, const haul__reference *r, haul_tensor *t);

/* Makes a tensor for a value; the caller gets a reference. */
haul_tensor *haul__follow_make(haul__following *f, uint32_t value);

/* The tensor of a reference, for a function of the program that an operation calls. The innermost scope owns a tensor
 * that is made for it. NULL, with the error recorded, on failure. */
haul_tensor *haul__follow_stand_in(haul__following *f, const haul__reference *r);

/* Memory for a store that outlives the step; refuses it if the recording is frozen and it would have to allocate. */
haul_status haul__follow_renew(haul__following *f, haul__inside *s, int holders);

#endif
