//! The C declarations, written by hand: `v22bis.h`, `fsk.h`, `hdlc.h`, `async.h`, `v8.h` and
//! `modem_connect_tones.h` of SpanDSP 0.0.6.

use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

/// SpanDSP could not allocate an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// Converts a number of samples to C's `int`; our blocks have at most 512.
pub(super) fn c_len(len: usize) -> c_int {
    c_int::try_from(len).expect("a block of samples longer than a C int can say")
}

/// `v22bis_state_t`: opaque, allocated by the library.
#[repr(C)]
pub(super) struct V22bisState {
    _opaque: [u8; 0],
}

/// `hdlc_tx_state_t`: opaque, allocated by the library.
#[repr(C)]
pub(super) struct HdlcTxState {
    _opaque: [u8; 0],
}

/// `hdlc_rx_state_t`: opaque, allocated by the library.
#[repr(C)]
pub(super) struct HdlcRxState {
    _opaque: [u8; 0],
}

/// `hdlc_rx_stats_t`: counted since `hdlc_rx_init`.
#[repr(C)]
#[derive(Default)]
pub(super) struct HdlcRxStats {
    pub(super) bytes: c_ulong,
    pub(super) good_frames: c_ulong,
    pub(super) crc_errors: c_ulong,
    pub(super) length_errors: c_ulong,
    pub(super) aborts: c_ulong,
}

/// `fsk_tx_state_t`: opaque, allocated by the library.
#[repr(C)]
pub(super) struct FskTxState {
    _opaque: [u8; 0],
}

/// `fsk_rx_state_t`: opaque, allocated by the library.
#[repr(C)]
pub(super) struct FskRxState {
    _opaque: [u8; 0],
}

/// `v8_state_t`: opaque, allocated by the library.
#[repr(C)]
pub(super) struct V8State {
    _opaque: [u8; 0],
}

/// `modem_connect_tones_tx_state_t`: opaque, allocated by the library.
#[repr(C)]
pub(super) struct TonesTxState {
    _opaque: [u8; 0],
}

/// `modem_connect_tones_rx_state_t`: opaque, allocated by the library.
#[repr(C)]
pub(super) struct TonesRxState {
    _opaque: [u8; 0],
}

/// `v8_parms_t`.
#[repr(C)]
#[derive(Default)]
pub(super) struct V8Parms {
    pub(super) status: c_int,
    pub(super) modem_connect_tone: c_int,
    pub(super) send_ci: c_int,
    pub(super) v92: c_int,
    pub(super) call_function: c_int,
    pub(super) modulations: c_uint,
    pub(super) protocol: c_int,
    pub(super) pstn_access: c_int,
    pub(super) pcm_modem_availability: c_int,
    pub(super) nsf: c_int,
    pub(super) t66: c_int,
}

/// `fsk_spec_t`: one channel of an FSK modem.
#[repr(C)]
pub(super) struct FskSpec {
    name: *const c_char,
    freq_zero: c_int,
    freq_one: c_int,
    tx_level: c_int,
    min_level: c_int,
    baud_rate: c_int,
}

/// `complexf_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Complex {
    pub(super) re: f32,
    pub(super) im: f32,
}

/// `qam_report_handler_t` (`v29rx.h`): a received symbol and the point it was decoded as. Null
/// points are reports of another kind.
pub(super) type QamReport = extern "C" fn(
    user_data: *mut c_void,
    received: *const Complex,
    target: *const Complex,
    symbol: c_int,
);

/// `v8_result_handler_t`.
pub(super) type V8Handler = extern "C" fn(user_data: *mut c_void, result: *mut V8Parms);

/// `tone_report_func_t`.
pub(super) type ToneReport =
    extern "C" fn(user_data: *mut c_void, code: c_int, level: c_int, delay: c_int);

pub(super) type GetBit = extern "C" fn(user_data: *mut c_void) -> c_int;
pub(super) type PutBit = extern "C" fn(user_data: *mut c_void, bit: c_int);
pub(super) type FrameHandler =
    extern "C" fn(user_data: *mut c_void, packet: *const u8, len: c_int, ok: c_int);
pub(super) type UnderflowHandler = extern "C" fn(user_data: *mut c_void);

/// C's `TRUE` and `FALSE`, as the library spells them.
pub(super) const TRUE: c_int = 1;
pub(super) const FALSE: c_int = 0;

/// `V22BIS_GUARD_TONE_NONE`.
pub(super) const GUARD_TONE_NONE: c_int = 0;

/// The `SIG_STATUS_*` values that a modem reports through its `put_bit` callback (`async.h`).
pub(super) const CARRIER_DOWN: c_int = -1;
pub(super) const CARRIER_UP: c_int = -2;
pub(super) const TRAINING_IN_PROGRESS: c_int = -3;
pub(super) const TRAINING_SUCCEEDED: c_int = -4;
pub(super) const TRAINING_FAILED: c_int = -5;
pub(super) const MODEM_RETRAIN_OCCURRED: c_int = -13;

/// `V8_CALL_V_SERIES`: a data call.
pub(super) const V8_CALL_V_SERIES: c_int = 6;
/// `V8_STATUS_*` (`v8.h`).
pub(super) const V8_STATUS_V8_OFFERED: c_int = 1;
pub(super) const V8_STATUS_V8_CALL: c_int = 2;
pub(super) const V8_STATUS_NON_V8_CALL: c_int = 3;
pub(super) const V8_STATUS_FAILED: c_int = 4;

/// `MODEM_CONNECT_TONES_*` (`modem_connect_tones.h`).
pub(super) const MODEM_CONNECT_TONES_NONE: c_int = 0;
pub(super) const MODEM_CONNECT_TONES_ANS: c_int = 2;
pub(super) const MODEM_CONNECT_TONES_ANS_PR: c_int = 3;
pub(super) const MODEM_CONNECT_TONES_ANSAM_PR: c_int = 5;

// Linked by build.rs, through pkg-config.
unsafe extern "C" {
    pub(super) fn v22bis_init(
        s: *mut V22bisState,
        bit_rate: c_int,
        guard: c_int,
        calling_party: c_int,
        get_bit: GetBit,
        get_bit_user_data: *mut c_void,
        put_bit: PutBit,
        put_bit_user_data: *mut c_void,
    ) -> *mut V22bisState;
    pub(super) fn v22bis_rx(s: *mut V22bisState, amp: *const i16, len: c_int) -> c_int;
    pub(super) fn v22bis_tx(s: *mut V22bisState, amp: *mut i16, len: c_int) -> c_int;
    pub(super) fn v22bis_rx_set_qam_report_handler(
        s: *mut V22bisState,
        handler: QamReport,
        user_data: *mut c_void,
    );
    pub(super) fn v22bis_free(s: *mut V22bisState) -> c_int;

    /// `fsk_spec_t preset_fsk_specs[]`: constant, ten entries in 0.0.6.
    pub(super) static preset_fsk_specs: [FskSpec; 10];
    pub(super) fn fsk_tx_init(
        s: *mut FskTxState,
        spec: *const FskSpec,
        get_bit: GetBit,
        user_data: *mut c_void,
    ) -> *mut FskTxState;
    pub(super) fn fsk_tx(s: *mut FskTxState, amp: *mut i16, len: c_int) -> c_int;
    pub(super) fn fsk_tx_free(s: *mut FskTxState) -> c_int;
    pub(super) fn fsk_rx_init(
        s: *mut FskRxState,
        spec: *const FskSpec,
        framing_mode: c_int,
        put_bit: PutBit,
        user_data: *mut c_void,
    ) -> *mut FskRxState;
    pub(super) fn fsk_rx_signal_cutoff(s: *mut FskRxState, cutoff: f32);
    pub(super) fn fsk_rx(s: *mut FskRxState, amp: *const i16, len: c_int) -> c_int;
    pub(super) fn fsk_rx_free(s: *mut FskRxState) -> c_int;

    pub(super) fn hdlc_tx_init(
        s: *mut HdlcTxState,
        crc32: c_int,
        inter_frame_flags: c_int,
        progressive: c_int,
        handler: UnderflowHandler,
        user_data: *mut c_void,
    ) -> *mut HdlcTxState;
    pub(super) fn hdlc_tx_frame(s: *mut HdlcTxState, frame: *const u8, len: usize) -> c_int;
    pub(super) fn hdlc_tx_get_bit(s: *mut HdlcTxState) -> c_int;
    pub(super) fn hdlc_tx_free(s: *mut HdlcTxState) -> c_int;

    pub(super) fn hdlc_rx_init(
        s: *mut HdlcRxState,
        crc32: c_int,
        report_bad_frames: c_int,
        framing_ok_threshold: c_int,
        handler: FrameHandler,
        user_data: *mut c_void,
    ) -> *mut HdlcRxState;
    pub(super) fn hdlc_rx_put_bit(s: *mut HdlcRxState, new_bit: c_int);
    pub(super) fn hdlc_rx_get_stats(s: *mut HdlcRxState, t: *mut HdlcRxStats) -> c_int;
    pub(super) fn hdlc_rx_free(s: *mut HdlcRxState) -> c_int;

    pub(super) fn v8_init(
        s: *mut V8State,
        calling_party: c_int,
        parms: *mut V8Parms,
        result_handler: V8Handler,
        user_data: *mut c_void,
    ) -> *mut V8State;
    pub(super) fn v8_tx(s: *mut V8State, amp: *mut i16, max_len: c_int) -> c_int;
    pub(super) fn v8_rx(s: *mut V8State, amp: *const i16, len: c_int) -> c_int;
    pub(super) fn v8_free(s: *mut V8State) -> c_int;

    pub(super) fn modem_connect_tones_tx_init(
        s: *mut TonesTxState,
        tone_type: c_int,
    ) -> *mut TonesTxState;
    pub(super) fn modem_connect_tones_tx(s: *mut TonesTxState, amp: *mut i16, len: c_int) -> c_int;
    pub(super) fn modem_connect_tones_tx_free(s: *mut TonesTxState) -> c_int;
    pub(super) fn modem_connect_tones_rx_init(
        s: *mut TonesRxState,
        tone_type: c_int,
        tone_callback: ToneReport,
        user_data: *mut c_void,
    ) -> *mut TonesRxState;
    pub(super) fn modem_connect_tones_rx(
        s: *mut TonesRxState,
        amp: *const i16,
        len: c_int,
    ) -> c_int;
    pub(super) fn modem_connect_tones_rx_free(s: *mut TonesRxState) -> c_int;
}
