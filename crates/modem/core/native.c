/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The modem core for threads. */

#define LINE_MAY_LOOP 1
#define LINE_PART static

#include "line.h"

u32 punctual_fsk_size(void)
{
	return sizeof(struct fsk);
}

u32 punctual_line_size(void)
{
	return sizeof(struct line);
}

void punctual_fsk_begin(struct fsk *fsk, u32 calls)
{
	fsk_begin(fsk, calls);
}

u32 punctual_fsk_put(struct fsk *fsk, u8 byte)
{
	return fsk_put(&fsk->tx.queue, byte);
}

s32 punctual_fsk_take(struct fsk *fsk)
{
	return fsk_take(&fsk->rx.queue);
}

void punctual_fsk_hear(struct fsk *fsk, s16 sample)
{
	fsk_hear(&fsk->rx, sample);
}

s16 punctual_fsk_speak(struct fsk *fsk)
{
	return fsk_speak(&fsk->tx);
}

void punctual_line_begin(struct line *line, u32 offset)
{
	line_begin(line, offset);
}

u32 punctual_line_serve(struct line *line, struct recording *recording, u64 position, u32 passes)
{
	return (u32)line_serve(line, recording, position, passes);
}
