//! The C declarations, by hand: `v22bis.h`, `fsk.h`, `hdlc.h` and `async.h` of SpanDSP 0.0.6.

use core::ffi::{c_char, c_int, c_ulong, c_void};

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

/// `qam_report_handler_t` (`v29rx.h`): a symbol received and the point it was taken for. Null
/// points are reports of another kind.
pub(super) type QamReport = extern "C" fn(
    user_data: *mut c_void,
    received: *const Complex,
    target: *const Complex,
    symbol: c_int,
);

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
    pub(super) fn v22bis_request_retrain(s: *mut V22bisState, bit_rate: c_int) -> c_int;
    pub(super) fn v22bis_rx_set_qam_report_handler(
        s: *mut V22bisState,
        handler: QamReport,
        user_data: *mut c_void,
    );
    pub(super) fn v22bis_free(s: *mut V22bisState) -> c_int;

    /// `fsk_spec_t preset_fsk_specs[]`: constant, ten of them in 0.0.6.
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
}
