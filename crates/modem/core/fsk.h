/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * A V.21 modem (ITU-T V.21: 300 bit/s, frequency shift) in integers, written once for three places:
 * a thread, a softirq and a hard interrupt. BPF checks programs before it runs them, and accepts
 * no floating point, signed division, recursion or unbounded loops.
 *
 * A function here handles one sample. All state is in structs that the caller owns, and every index
 * is masked, so that no content of the memory can lead outside it.
 */
#ifndef PUNCTUAL_FSK_H
#define PUNCTUAL_FSK_H

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT16_TYPE__ s16;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;

#include "sine.h"

#define FSK_INLINE static inline __attribute__((always_inline))

/* A frequency at 8000 samples a second as the step of a 32-bit phase, rounded. */
#define FSK_STEP(hertz) ((u32)((((u64)(hertz) << 32) + 4000) / 8000))

/* The step of one bit at 300 bit/s; a bit has 26.67 samples, over which the tones are summed. */
#define FSK_BIT_STEP FSK_STEP(300)
#define FSK_BIT_SAMPLES 27

/* Slots of the running sums, and of the queues of bytes: powers of two, for the masks. */
#define FSK_SLOTS 32
#define FSK_BYTES 64

/*
 * The energies at which a carrier is detected and lost: some 48 and 51 dB below full scale.
 * A tone of amplitude a sums to 27/2 · a · 2^14 / 2^6 in each of two quadratures at most.
 */
#define FSK_HEARD (128LL * 128 * 3456 * 3456)
#define FSK_LOST (90LL * 90 * 3456 * 3456)

/* The peak of the signal sent: 12 dB below full scale. */
#define FSK_LEVEL 8192

struct fsk_queue {
	u32 written;
	u32 read;
	u8 bytes[FSK_BYTES];
};

struct fsk_tx {
	u32 phase;
	u32 mark;
	u32 space;
	u32 bit_phase;
	/* The bit being sent. */
	u32 bit;
	/* The remaining bits of the current character, the next one lowest, and their number. */
	u32 bits;
	u32 left;
	struct fsk_queue queue;
};

/* The running sums of one sample: mark and space, each in two quadratures. */
struct fsk_mixed {
	s32 mark_i;
	s32 mark_q;
	s32 space_i;
	s32 space_q;
};

struct fsk_rx {
	u32 phase_mark;
	u32 phase_space;
	u32 mark;
	u32 space;
	u32 heard;
	u32 bit_phase;
	/* 0: waits for a start bit; 1: expects its middle; 2 to 9: data bits; 10: the stop bit. */
	u32 place;
	u32 character;
	u32 carrier;
	u32 framing_errors;
	/* The energy of the mark minus that of the space: positive for a mark. */
	s64 soft;
	struct fsk_mixed sum;
	struct fsk_mixed slots[FSK_SLOTS];
	struct fsk_queue queue;
};

struct fsk {
	struct fsk_tx tx;
	/* Explicit, so that there is no padding. */
	u32 unused;
	struct fsk_rx rx;
};

/* Queues a byte; returns 0 if the queue is full. */
FSK_INLINE u32 fsk_put(struct fsk_queue *queue, u8 byte)
{
	if (queue->written - queue->read >= FSK_BYTES)
		return 0;
	queue->bytes[queue->written & (FSK_BYTES - 1)] = byte;
	queue->written++;
	return 1;
}

/* Returns the byte that has waited longest, or -1. */
FSK_INLINE s32 fsk_take(struct fsk_queue *queue)
{
	u32 read = queue->read;

	if (read == queue->written)
		return -1;
	queue->read = read + 1;
	return queue->bytes[read & (FSK_BYTES - 1)];
}

/* Returns the sine of a 32-bit phase, in 1/2^14. */
FSK_INLINE s64 fsk_sine(u32 phase)
{
	return fsk_sines[(phase >> 24) & 255];
}

FSK_INLINE s64 fsk_cosine(u32 phase)
{
	return fsk_sine(phase + (1U << 30));
}

/* Returns the next bit: of the current character, of the next byte, or the mark of an idle line. */
FSK_INLINE u32 fsk_next_bit(struct fsk_tx *tx)
{
	u32 bit;

	if (tx->left == 0) {
		s32 byte = fsk_take(&tx->queue);

		if (byte < 0)
			return 1;
		/* A start bit of 0, eight data bits, a stop bit of 1. */
		tx->bits = ((u32)byte << 1) | (1U << 9);
		tx->left = 10;
	}
	bit = tx->bits & 1;
	tx->bits >>= 1;
	tx->left--;
	return bit;
}

/* Returns the next sample to be played. */
FSK_INLINE s16 fsk_speak(struct fsk_tx *tx)
{
	u32 before = tx->bit_phase;

	tx->bit_phase = before + FSK_BIT_STEP;
	if (tx->bit_phase < before)
		tx->bit = fsk_next_bit(tx);
	tx->phase += tx->bit ? tx->mark : tx->space;
	return (s16)((fsk_sine(tx->phase) * FSK_LEVEL) >> 14);
}

/* Takes one received bit: 1 for a mark. */
FSK_INLINE void fsk_read_bit(struct fsk_rx *rx, u32 mark)
{
	u32 place = rx->place;

	if (place == 1) {
		/* Half a bit after a falling edge it must still be a space; otherwise it was a click. */
		rx->place = mark ? 0 : 2;
		rx->character = 0;
	} else if (place < 10) {
		rx->character |= mark << ((place - 2) & 7);
		rx->place = place + 1;
	} else {
		if (mark)
			fsk_put(&rx->queue, (u8)rx->character);
		else
			rx->framing_errors++;
		rx->place = 0;
	}
}

/* Initialises a modem. The calling end sends on the lower channel, the answering end on the upper. */
FSK_INLINE void fsk_begin(struct fsk *fsk, u32 calls)
{
	__builtin_memset(fsk, 0, sizeof(*fsk));
	fsk->tx.mark = calls ? FSK_STEP(980) : FSK_STEP(1650);
	fsk->tx.space = calls ? FSK_STEP(1180) : FSK_STEP(1850);
	fsk->rx.mark = calls ? FSK_STEP(1650) : FSK_STEP(980);
	fsk->rx.space = calls ? FSK_STEP(1850) : FSK_STEP(1180);
	fsk->tx.bit = 1;
}

/* Takes one sample from the line. */
FSK_INLINE void fsk_hear(struct fsk_rx *rx, s16 sample)
{
	struct fsk_mixed *into = &rx->slots[rx->heard & (FSK_SLOTS - 1)];
	struct fsk_mixed *gone = &rx->slots[(rx->heard - FSK_BIT_SAMPLES) & (FSK_SLOTS - 1)];
	s64 energy_mark, energy_space, energy;
	struct fsk_mixed mixed;
	u32 before;

	rx->heard++;
	rx->phase_mark += rx->mark;
	rx->phase_space += rx->space;
	/* 15 + 14 - 6 bits, so that 27 of them fit in 32 bits and their squares in 64. */
	mixed.mark_i = (s32)((sample * fsk_cosine(rx->phase_mark)) >> 6);
	mixed.mark_q = (s32)((sample * fsk_sine(rx->phase_mark)) >> 6);
	mixed.space_i = (s32)((sample * fsk_cosine(rx->phase_space)) >> 6);
	mixed.space_q = (s32)((sample * fsk_sine(rx->phase_space)) >> 6);
	rx->sum.mark_i += mixed.mark_i - gone->mark_i;
	rx->sum.mark_q += mixed.mark_q - gone->mark_q;
	rx->sum.space_i += mixed.space_i - gone->space_i;
	rx->sum.space_q += mixed.space_q - gone->space_q;
	*into = mixed;

	energy_mark = (s64)rx->sum.mark_i * rx->sum.mark_i + (s64)rx->sum.mark_q * rx->sum.mark_q;
	energy_space =
		(s64)rx->sum.space_i * rx->sum.space_i + (s64)rx->sum.space_q * rx->sum.space_q;
	rx->soft = energy_mark - energy_space;
	energy = energy_mark + energy_space;
	rx->carrier = energy > (rx->carrier ? FSK_LOST : FSK_HEARD);

	if (!rx->carrier) {
		rx->place = 0;
		return;
	}
	if (rx->place == 0) {
		if (rx->soft < 0) {
			rx->place = 1;
			rx->bit_phase = 1U << 31;
		}
		return;
	}
	before = rx->bit_phase;
	rx->bit_phase = before + FSK_BIT_STEP;
	if (rx->bit_phase < before)
		fsk_read_bit(rx, rx->soft > 0);
}

#endif
