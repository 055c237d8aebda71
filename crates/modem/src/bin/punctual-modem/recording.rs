//! One modem whose line is a file: it receives a recording, and its signal is recorded.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use punctual_frontend::exit::{Failure, Outcome};
use punctual_frontend::output;
use punctual_frontend::trace_file::TraceArgs;
use punctual_model::Duration;
use punctual_modem::SAMPLE_RATE;
use punctual_modem::exchange::BLOCK;
use punctual_modem::station::{LineSignal, Signal, Station};

use crate::modems::every_block;
use crate::pty::{Pty, Terminal};
use crate::traced::Services;

/// The only WAV format that is a telephone line.
const FORM: WavSpec = WavSpec {
    channels: 1,
    sample_rate: SAMPLE_RATE,
    bits_per_sample: 16,
    sample_format: SampleFormat::Int,
};

/// The longest recording accepted: it is kept in memory.
const LONGEST: u32 = 3_600 * SAMPLE_RATE;

/// The files that stand for the line.
#[derive(clap::Args)]
pub(crate) struct Recording {
    /// Signal that the modem receives from when it dials or answers: a WAV file, 8 kHz, mono, 16
    /// bit. After its end there is silence
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pair", "listen", "call"])]
    wav_in: Option<PathBuf>,
    /// Record the modem's signal here, one call after the other: a WAV file of the same kind
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pair", "listen", "call"])]
    wav_out: Option<PathBuf>,
}

impl Recording {
    /// Returns true if either file is given.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.wav_in.is_some() || self.wav_out.is_some()
    }
}

/// Runs the modem. Any number dialled is answered at once.
pub(crate) fn main(
    link: &Path,
    recording: &Recording,
    lasting: Option<Duration>,
    trace: &TraceArgs,
) -> Outcome {
    let hears = recording.wav_in.as_deref().map(read).transpose()?.unwrap_or_default();
    let mut line = Line {
        hears,
        at: None,
        says: recording.wav_out.as_deref().map(WavFile::create).transpose()?,
    };
    let services = Services::traced(trace, "modem")?;
    let mut terminal = Terminal::new(Pty::open(link)?);
    output::print(&format!("{} is a modem: {}\n", link.display(), terminal.pty().tty()))?;
    let mut station = Station::new();
    let outcome = every_block(lasting, services, |now| {
        terminal.serve(now, &mut station).map_err(Failure::cannot_here)?;
        let received = line.next_received();
        let mut sent = [0; BLOCK];
        station.exchange(now, &received, &mut sent);
        line.says(&sent)?;
        while let Some(signal) = station.next_signal() {
            match signal {
                Signal::Dial(_) => {
                    line.at = Some(0);
                    station.line_signal(now, LineSignal::Answered);
                }
                Signal::Answer => line.at = Some(0),
                Signal::HangUp => line.hang_up()?,
            }
        }
        Ok(())
    })?;
    line.hang_up()?;
    Ok(outcome)
}

struct Line {
    hears: Vec<i16>,
    /// The next sample to receive, while off hook.
    at: Option<usize>,
    says: Option<WavFile>,
}

impl Line {
    fn next_received(&mut self) -> [i16; BLOCK] {
        let mut received = [0; BLOCK];
        if let Some(at) = &mut self.at {
            let rest = self.hears.get(*at..).unwrap_or_default();
            for (slot, &sample) in received.iter_mut().zip(rest) {
                *slot = sample;
            }
            *at += BLOCK;
        }
        received
    }

    fn says(&mut self, sent: &[i16]) -> Result<(), Failure> {
        match &mut self.says {
            Some(says) if self.at.is_some() => says.write(sent),
            _ => Ok(()),
        }
    }

    fn hang_up(&mut self) -> Result<(), Failure> {
        self.at = None;
        self.says.as_mut().map_or(Ok(()), WavFile::keep)
    }
}

/// A file that is being written.
struct WavFile {
    path: PathBuf,
    writer: WavWriter<BufWriter<File>>,
}

impl WavFile {
    fn create(path: &Path) -> Result<Self, Failure> {
        let writer = WavWriter::create(path, FORM).map_err(|why| cannot_write(path, &why))?;
        Ok(Self { path: path.into(), writer })
    }

    fn write(&mut self, samples: &[i16]) -> Result<(), Failure> {
        for &sample in samples {
            self.writer.write_sample(sample).map_err(|why| cannot_write(&self.path, &why))?;
        }
        Ok(())
    }

    /// Completes the file: its header contains its length.
    fn keep(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|why| cannot_write(&self.path, &why))
    }
}

fn cannot_write(path: &Path, why: &hound::Error) -> Failure {
    Failure::cannot_here(format!("{}: the recording cannot be written: {why}", path.display()))
}

/// Reads all samples of a recording of the right format.
fn read(path: &Path) -> Result<Vec<i16>, Failure> {
    let refused = |why: String| Failure::bad_input(format!("{}: {why}", path.display()));
    let reader = WavReader::open(path)
        .map_err(|why| refused(format!("this is no WAV file that can be read: {why}")))?;
    let WavSpec { channels, sample_rate, bits_per_sample, sample_format } = reader.spec();
    if reader.spec() != FORM {
        let kind = if sample_format == SampleFormat::Float { "floating point" } else { "integer" };
        return Err(refused(format!(
            "{sample_rate} samples/s, {channels} channel(s), {bits_per_sample} bit {kind}, where a \
             line has 8000 samples/s, 1 channel, 16 bit integer; convert it, for instance with \
             sox IN.wav -r 8000 -c 1 -b 16 -e signed-integer OUT.wav"
        )));
    }
    if reader.duration() > LONGEST {
        let seconds = reader.duration() / SAMPLE_RATE;
        return Err(refused(format!("it lasts {seconds} s; cut it to an hour or less")));
    }
    let samples = reader.into_samples::<i16>().collect::<Result<_, _>>();
    samples.map_err(|why| refused(format!("it is cut off or damaged: {why}")))
}
