//! Predictions against simulation: every promise of admission holds in virtual time.

mod channels;
mod channels_draw;
mod draw;
mod edf_vd;
mod egress;
mod egress_driver;
mod egress_scheduler;
mod faults;
mod joint;
mod late;
mod one_admission;
mod overheads;
mod partition;
mod processors;
mod reservations;
mod served;
mod systems;
mod timetable;
mod upcalls;
mod witness;
