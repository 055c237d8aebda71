//! A client that works in small steps, each of which is requested and answered by a line.

use std::path::Path;

use punctual_channel::client::Sending;
use punctual_client::want::{Guarantee, Want, WantedChannel};
use punctual_client::{
    Broker, ChannelError, ClientError, Granted, GrantedChannel, ReleaseError, RequestError,
};
use punctual_linux::{clock, sched, thread};
use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Reservation, Service, Upcall, UpcallSpec};

use crate::hostile::person::say;
use crate::hostile::raw::may_be_real_time;

/// Longer than any answer takes to arrive.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
/// The size of each message: its number and padding.
pub(super) const MESSAGE: usize = 64;

/// The outcome of a step that was not done: refused, or unknown because the broker was lost.
enum Unfinished {
    Refused(String),
    Lost(String),
}

type Step = Result<String, Unfinished>;

fn lost(why: impl ToString) -> Unfinished {
    Unfinished::Lost(why.to_string())
}

impl From<ClientError> for Unfinished {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Broker(why) => Self::Refused(why),
            other => Self::Lost(other.to_string()),
        }
    }
}

impl From<RequestError> for Unfinished {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Refused(why) => Self::Refused(why.to_string()),
            RequestError::Client(other) => other.into(),
        }
    }
}

impl From<ChannelError> for Unfinished {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Refused(why) => Self::Refused(why.to_string()),
            ChannelError::Client(other) => other.into(),
        }
    }
}

impl From<ReleaseError> for Unfinished {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Client(other) => other.into(),
            other => Self::Refused(other.to_string()),
        }
    }
}

#[derive(Default)]
struct Holder {
    broker: Option<Broker>,
    granted: Option<Granted>,
    channel: Option<(GrantedChannel, Option<Sending>)>,
    sent: u64,
}

/// Runs in the client's process.
pub(in crate::hostile) fn obey(socket: &Path) {
    may_be_real_time();
    let mut holder = Holder::default();
    say("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("readable");
        say(&match holder.obey(socket, &line.split(' ').collect::<Vec<_>>()) {
            Ok(said) => said,
            Err(Unfinished::Refused(why)) => format!("refused: {why}"),
            Err(Unfinished::Lost(why)) => format!("lost: {why}"),
        });
    }
}

impl Holder {
    fn obey(&mut self, socket: &Path, words: &[&str]) -> Step {
        match words {
            ["connect"] => {
                self.broker = None;
                self.broker = Some(Broker::connect_within(socket, PATIENCE)?);
            }
            ["request", kind, per_mille] => {
                let what = request_of(kind, per_mille);
                let want = Want { thread: thread::current(), what };
                self.granted = Some(self.broker()?.request(&want)?);
            }
            ["change", kind, per_mille] => {
                let (broker, granted) = self.both()?;
                granted.change(broker, request_of(kind, per_mille))?;
            }
            ["release"] => {
                let (broker, granted) = self.both()?;
                granted.clone().release(broker)?;
                self.granted = None;
            }
            ["resume"] => {
                let Some(mut granted) = self.granted.clone() else { return Ok("nothing".into()) };
                self.broker()?.resume(&mut granted)?;
            }
            ["leave"] => {
                if sched::get(thread::current()).map_err(lost)?.policy_name() == "SCHED_DEADLINE" {
                    let ordinary = sched::Class::Other { nice: 0 };
                    sched::set(thread::current(), ordinary).map_err(lost)?;
                }
                self.granted = None;
            }
            ["class"] => {
                let class = sched::get(thread::current()).map_err(lost)?;
                return Ok(class.policy_name().to_owned());
            }
            ["open", port] => {
                let spacing = Duration::from_millis(1);
                let arrivals = LinearBounded::fixed(MESSAGE as u32, spacing, 16).expect("valid");
                let address = format!("127.0.0.1:{port}").parse().expect("an address");
                let bound = Some(Duration::from_millis(100));
                let want = WantedChannel::sending("cut", arrivals, bound, address);
                self.channel = Some((self.broker()?.open_channel(&want)?, None));
            }
            ["attach"] => {
                let (broker, (granted, sending)) = self.open()?;
                *sending = Some(broker.attach_channel(granted)?);
            }
            ["send", count] => {
                for _ in 0..count.parse::<u64>().expect("a number") {
                    let mut message = [0; MESSAGE];
                    message[..8].copy_from_slice(&self.sent.to_be_bytes());
                    let until = clock::now() + Duration::from_secs(20);
                    let sending = self.channel.as_mut().and_then(|(_, sending)| sending.as_mut());
                    let sending = sending.ok_or_else(|| lost("not attached"))?;
                    sending.send_until(&message, until).map_err(lost)?;
                    self.sent += 1;
                }
            }
            ["drain"] => {
                let until = clock::now() + Duration::from_secs(20);
                let sending = self.channel.as_mut().and_then(|(_, sending)| sending.as_mut());
                sending.ok_or_else(|| lost("not attached"))?.drain_until(until).map_err(lost)?;
            }
            ["rejoin"] => {
                let Some((granted, sending)) = &mut self.channel else {
                    return Ok("nothing".into());
                };
                let broker = self.broker.as_mut().ok_or_else(|| lost("not connected"))?;
                broker.resume_channel(granted)?;
                match sending {
                    Some(sending) => broker.reattach_channel(granted, sending)?,
                    None => *sending = Some(broker.attach_channel(granted)?),
                }
            }
            // Counts messages put in since the last answer, too.
            ["sent"] => return Ok(self.sent.to_string()),
            ["verdict"] => {
                let id = self.open()?.1.0.id();
                let all = self.broker()?.channels()?.channels;
                let ours = all.into_iter().find(|one| one.grant == id);
                return Ok(ours.map_or_else(|| "none".into(), |ours| ours.verdict));
            }
            ["give-back"] => {
                let granted = self.open()?.1.0.clone();
                self.broker()?.release_channel(granted)?;
                self.channel = None;
            }
            _ => panic!("{words:?}"),
        }
        Ok("done".into())
    }

    fn broker(&mut self) -> Result<&mut Broker, Unfinished> {
        self.broker.as_mut().ok_or_else(|| lost("not connected"))
    }

    fn both(&mut self) -> Result<(&mut Broker, &mut Granted), Unfinished> {
        let broker = self.broker.as_mut().ok_or_else(|| lost("not connected"))?;
        Ok((broker, self.granted.as_mut().ok_or_else(|| lost("nothing is granted"))?))
    }

    #[allow(clippy::type_complexity, reason = "said once")]
    fn open(
        &mut self,
    ) -> Result<(&mut Broker, &mut (GrantedChannel, Option<Sending>)), Unfinished> {
        let broker = self.broker.as_mut().ok_or_else(|| lost("not connected"))?;
        Ok((broker, self.channel.as_mut().ok_or_else(|| lost("no channel is open"))?))
    }
}

/// Returns the request of this kind, with `per_mille` thousandths of a CPU.
fn request_of(kind: &str, per_mille: &str) -> Guarantee {
    let micros = 20 * per_mille.parse::<u64>().expect("a number");
    let period = Duration::from_millis(20);
    match kind {
        "upcalls" => {
            let upcall = UpcallSpec {
                name: "u".into(),
                period,
                batch: 1,
                quantum: 1,
                time_per_pdu: Service::from_micros(micros),
            };
            Guarantee::Upcalls(vec![Upcall::new(upcall).expect("valid")])
        }
        "reservation" => Guarantee::Reservation(
            Reservation::new(Service::from_micros(micros), period).expect("valid"),
        ),
        "priority" => Guarantee::Priority { share_ppm: (micros * 50) as u32 },
        _ => panic!("{kind}"),
    }
}
