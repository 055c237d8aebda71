/* An event as ours: an instant, a release, a job, a task, a kind. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER punctual_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_event.h"

#if !defined(LTTNG_EVENT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_EVENT_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	punctual_bench, event,
	LTTNG_UST_TP_ARGS(uint64_t, release, uint64_t, job, uint32_t, task, uint32_t, kind),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, release, release)
		lttng_ust_field_integer(uint64_t, job, job)
		lttng_ust_field_integer(uint32_t, task, task)
		lttng_ust_field_integer(uint32_t, kind, kind)
	)
)

#endif

#include <lttng/tracepoint-event.h>
