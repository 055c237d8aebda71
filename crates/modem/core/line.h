/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * A line: a card with rings of 512 samples, a modem on it, and the service of one interrupt.
 *
 * The card is that of `card.rs`: its position follows from the clock alone, and samples that the
 * driver does not take before the ring is full are lost. The far end is a recording, so that it and
 * the line cost the driver only a copy.
 *
 * LINE_MAY_LOOP: true if a loop may continue; BPF requires the check.
 * LINE_PART: the declaration of a function that BPF should check separately.
 */
#ifndef PUNCTUAL_LINE_H
#define PUNCTUAL_LINE_H

#include "fsk.h"

#define LINE_RING 512
#define LINE_NANOS_PER_SAMPLE 125000

/* Samples of a recording: 32.8 s; it repeats. A power of two, for the mask. */
#define RECORDING_SAMPLES (1 << 18)

struct recording {
	s16 samples[RECORDING_SAMPLES];
};

struct line {
	/* Samples taken or lost since the start. */
	u64 read;
	u64 lost;
	u64 stale;
	/* The position in the recording at which this line began. */
	u32 offset;
	u32 overruns;
	u32 most_pending;
	/* Received bytes that counted upwards, those that did not, and the next one expected. */
	u32 good;
	u32 bad;
	u32 expected;
	/* The next byte to send; these bytes count upwards too. */
	u32 said;
	/* The output of repeated passes, so that the compiler cannot drop them. */
	u32 scratch_sum;
	struct fsk modem;
	/* Repeated passes work on a modem of their own. */
	struct fsk scratch;
	s16 rx[LINE_RING];
	s16 tx[LINE_RING];
};

/* The parameters and counters of a driver, shared with user space. */
struct control {
	/* The beginning of sample 0, in ns of the monotonic clock. */
	u64 start;
	/* Softirq: the due time of the next service, and the period. */
	u64 due;
	u64 period;
	/* The card's position for a service on request. */
	u64 position;
	/* The number of times a sample is processed: once, and this minus one on scratch state. */
	u32 passes;
	u32 lines;
	u32 stop;
	/* Records written, including overwritten ones. */
	u32 services;
	/* The kernel's result when the timer was started. */
	s64 started;
	/* The kernel's error when it refused to arm the timer again. */
	s64 refused;
};

/* One service. */
struct record {
	/* Zero if unknown: the phase of a perf event is not available. */
	u64 due;
	u64 begin;
	u64 end;
	u32 passes;
	u32 lines;
};

#define RECORDS (1 << 14)

/* Returns the position of a card that began at `start`. */
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
 * Loops count down from a number that the BPF verifier does not know: counting up from zero, it
 * would check each iteration separately.
 */

/* Processes the samples from `at` on once with a modem that is not on the line. */
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

/* Checks the received bytes. They count upwards; after a missing byte the count continues. */
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

/* Does one line's part of an interrupt at this position of the card. */
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
