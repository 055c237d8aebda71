//! Implements as much of HTTP/1.1 as a scraper needs (RFC 9112), and no more: one GET a connection.
//!
//! Clients are not trusted. A request may have at most [`MOST_BYTES`](super::request::MOST_BYTES)
//! and take [`TO_ASK`] to arrive; an answer may take [`TO_READ`] to be read. At most [`MOST`]
//! connections are served at a time, and further ones are answered with status 503.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration as Time;

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use rustix::net::{AddressFamily, sockopt::socket_domain};

use super::format::Format;
use super::request::Head;

/// The most connections at a time.
const MOST: usize = 8;
/// The time within which a request must have arrived.
const TO_ASK: Duration = Duration::from_secs(2);
/// The time within which its answer must have been read.
const TO_READ: Duration = Duration::from_secs(5);
/// The pause after a failed accept(2), for instance for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Renders the page in a format.
type Page = dyn Fn(Format) -> String + Send + Sync;

/// A connection of either kind.
trait Stream: Read + Write + Send {
    fn wait_at_most(&self, time: Time) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn wait_at_most(&self, time: Time) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

impl Stream for UnixStream {
    fn wait_at_most(&self, time: Time) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

/// Answers requests for `/metrics` with `page` until the process ends.
///
/// # Errors
/// Returns an error if the descriptor is not a listening socket.
pub fn serve(
    listener: OwnedFd,
    page: impl Fn(Format) -> String + Send + Sync + 'static,
) -> io::Result<Infallible> {
    let page: Arc<Page> = Arc::new(page);
    let accept: Box<dyn Fn() -> io::Result<Box<dyn Stream>>> =
        if socket_domain(&listener)? == AddressFamily::UNIX {
            let listener = UnixListener::from(listener);
            Box::new(move || Ok(Box::new(listener.accept()?.0)))
        } else {
            let listener = TcpListener::from(listener);
            Box::new(move || Ok(Box::new(listener.accept()?.0)))
        };
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok(mut stream) = accept() else {
            clock::sleep(PAUSE);
            continue;
        };
        // Only this thread adds, so the count cannot have grown since it was read.
        if busy.load(Ordering::Acquire) >= MOST {
            turn_away(&mut *stream);
            continue;
        }
        busy.fetch_add(1, Ordering::AcqRel);
        let (page, done) = (Arc::clone(&page), Done(Arc::clone(&busy)));
        // Without a thread the connection is closed, and the client connects again.
        let _ = thread::Builder::new().name("scrape".into()).spawn(move || {
            let _done = done;
            // A client that has gone away needs no answer.
            let _ = answer(&mut *stream, &*page);
        });
    }
}

/// Frees a place when dropped, however its connection ended.
struct Done(Arc<AtomicUsize>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers with status 503. The answer fits the socket's buffer, so this does not wait for the
/// client.
fn turn_away(stream: &mut dyn Stream) {
    let _ = stream.wait_at_most(Time::from_millis(1));
    // Input left unread at the close would discard the answer.
    let _ = stream.read(&mut [0; 1024]);
    let _ =
        stream.write_all(&response("503 Service Unavailable", "text/plain", "too many ask", true));
}

fn answer(stream: &mut dyn Stream, page: &Page) -> io::Result<()> {
    let head = read(stream, clock::now() + TO_ASK)?;
    let said = match head.parse() {
        Ok(asked) => {
            let body = page(asked.format);
            response("200 OK", asked.format.content_type(), &body, asked.body)
        }
        Err(status) => response(status, "text/plain; charset=utf-8", "try GET /metrics\n", true),
    };
    write(stream, &said, clock::now() + TO_READ)
}

/// Reads the head of a request, but no body.
fn read(stream: &mut dyn Stream, until: Instant) -> io::Result<Head> {
    let mut head = Head::default();
    let mut part = [0; 1024];
    while !head.is_over() {
        stream.wait_at_most(left(until)?)?;
        match stream.read(&mut part)? {
            0 => break,
            length => head.take(&part[..length]),
        }
    }
    Ok(head)
}

fn write(stream: &mut dyn Stream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.wait_at_most(left(until)?)?;
        let length = stream.write(bytes)?;
        bytes = bytes.get(length..).unwrap_or_default();
        if length == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    stream.flush()
}

/// Returns the time left. The limit is for the whole transfer, so sending in small pieces gains
/// none.
fn left(until: Instant) -> io::Result<Time> {
    let left = until.saturating_since(clock::now());
    if left.is_zero() {
        Err(io::ErrorKind::TimedOut.into())
    } else {
        Ok(Time::from_nanos(left.as_nanos()))
    }
}

fn response(status: &str, content_type: &str, body: &str, with_body: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), if with_body { body.as_bytes() } else { b"" }].concat()
}

#[cfg(test)]
mod tests;
