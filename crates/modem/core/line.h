/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * A line: a card with rings of 512 samples, a modem on it, and the service of one interrupt.
 *
 * The card is that of `card.rs`: its position follows from the clock alone, and what the driver does
 * not take before a ring is full is lost. What the line says is a recording, so that the far end and
 * the line cost the driver a copy and nothing else.
 *
 * LINE_MAY_LOOP: whether a loop may go on; a place that checks programs wants to be asked.
 * LINE_PART: how a function is declared that is to be checked by itself.
 */
#ifndef PUNCTUAL_LINE_H
#define PUNCTUAL_LINE_H

#include "fsk.h"

#define LINE_RING 512
#define LINE_NANOS_PER_SAMPLE 125000

/* Samples of a recording: 32.8 s; it goes round. A power of two, for the mask. */
#define RECORDING_SAMPLES (1 << 18)

struct recording {
	s16 samples[RECORDING_SAMPLES];
};

struct line {
	/* Samples taken or lost since the start. */
	u64 read;
	u64 lost;
	u64 stale;
	/* Where in the recording this line began. */
	u32 offset;
	u32 overruns;
	u32 most_pending;
	/* The bytes received count upwards: those that did, those that did not, the next one. */
	u32 good;
	u32 bad;
	u32 expected;
	/* The next byte to send: they count upwards too. */
	u32 said;
	/* What repeated passes said, so that none of them is for nothing. */
	u32 scratch_sum;
	struct fsk modem;
	/* Repeated passes work on a modem of their own. */
	struct fsk scratch;
	s16 rx[LINE_RING];
	s16 tx[LINE_RING];
};

/* What is asked of a driver, and what it counted: shared with who asks. */
struct control {
	/* When sample 0 begins, in ns of the monotonic clock. */
	u64 start;
	/* Softirq: when the next service is due, and how often. */
	u64 due;
	u64 period;
	/* For a service that is asked for and not due: the card's position. */
	u64 position;
	/* How often the work of a sample is done: once, and this often less one on scratch state. */
	u32 passes;
	u32 lines;
	u32 stop;
	/* Records written, wrapped or not. */
	u32 services;
	/* What the starter of the timer was told by the kernel. */
	s64 started;
	/* Re-arming that the kernel refused. */
	s64 refused;
};

/* One service. */
struct record {
	/* Zero where nobody knows: the phase of a perf event is not told. */
	u64 due;
	u64 begin;
	u64 end;
	u32 passes;
	u32 lines;
};

#define RECORDS (1 << 14)

/* The position of a card that began at `start`. */
FSK_INLINE u64 line_position(u64 start, u64 now)
{
	return now > start ? (now - start) / LINE_NANOS_PER_SAMPLE : 0;
}

FSK_INLINE void line_begin(struct line *line, u32 offset)
{
	__builtin_memset(line, 0, sizeof(*line));
	line->offset = offset;
	fsk_begin(&line->modem, 1);
	fsk_begin(&line->scratch, 1);
}

/*
 * Loops count down from what the checking machine does not know: counting up from zero, it would look
 * at each round by itself.
 */

/* The samples from `at` on once through a modem that is not on the line. */
LINE_PART int line_repeat(struct line *line, u32 at, u32 samples)
{
	u32 sum;

	if (!line)
		return 0;
	sum = line->scratch_sum;
	for (; samples > 0 && LINE_MAY_LOOP; samples--, at++) {
		fsk_hear(&line->scratch.rx, line->rx[at & (LINE_RING - 1)]);
		sum = sum * 31 + (u16)fsk_speak(&line->scratch.tx);
	}
	line->scratch_sum = sum;
	line->scratch.rx.queue.read = line->scratch.rx.queue.written;
	if (line->scratch.tx.queue.written == line->scratch.tx.queue.read)
		fsk_put(&line->scratch.tx.queue, (u8)sum);
	return 0;
}

/* Takes the pending samples, and answers with as many. */
LINE_PART int line_exchange(struct line *line, struct recording *recording, u32 samples)
{
	u32 at, from;

	if (!line || !recording)
		return 0;
	at = (u32)line->read;
	from = at + line->offset;
	if (line->modem.tx.queue.written == line->modem.tx.queue.read)
		fsk_put(&line->modem.tx.queue, (u8)line->said++);
	for (; samples > 0 && LINE_MAY_LOOP; samples--, at++, from++) {
		s16 sample = recording->samples[from & (RECORDING_SAMPLES - 1)];

		line->rx[at & (LINE_RING - 1)] = sample;
		fsk_hear(&line->modem.rx, sample);
		/* The slot just read is played one ring later. */
		line->tx[at & (LINE_RING - 1)] = fsk_speak(&line->modem.tx);
	}
	return 0;
}

/* Looks at what was received. A sequence that counts shows what is missing, and goes on after it. */
LINE_PART int line_check(struct line *line)
{
	u32 left;

	if (!line)
		return 0;
	left = line->modem.rx.queue.written - line->modem.rx.queue.read;
	for (; left > 0 && LINE_MAY_LOOP; left--) {
		s32 byte = fsk_take(&line->modem.rx.queue);

		if (byte < 0)
			break;
		if ((u32)byte == line->expected)
			line->good++;
		else
			line->bad++;
		line->expected = (u32)(byte + 1) & 255;
	}
	return 0;
}

/* One line's part of an interrupt at this position of the card. */
LINE_PART int line_serve(struct line *line, struct recording *recording, u64 position, u32 passes)
{
	u64 pending, wrapped;
	u32 samples, first;

	if (!line || !recording || position < line->read)
		return 0;
	pending = position - line->read;
	if (pending > line->most_pending)
		line->most_pending = pending > 0xffffffffU ? 0xffffffffU : (u32)pending;
	/* The card shows its position modulo the ring. */
	samples = pending & (LINE_RING - 1);
	wrapped = pending - samples;
	if (wrapped > 0) {
		line->overruns++;
		line->lost += wrapped;
		line->stale += wrapped;
		line->read += wrapped;
	}
	first = (u32)line->read;
	line_exchange(line, recording, samples);
	line->read += samples;
	line_check(line);
	for (; passes > 1 && LINE_MAY_LOOP; passes--)
		line_repeat(line, first, samples);
	return (int)samples;
}

#endif
