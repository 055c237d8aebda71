//! Parses a request of HTTP/1.1 as its bytes arrive. The code is pure, and the fuzz target `http`
//! compiles this file too.

use super::format::Format;

/// The longest head that is read.
pub(super) const MOST_BYTES: usize = 8 << 10;

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// The first bytes of a request, in the pieces in which they arrive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    bytes: Vec<u8>,
    /// The position after the blank line that ends the head.
    end: Option<usize>,
}

/// A valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) format: Format,
    /// False for a HEAD request.
    pub(super) body: bool,
}

impl Head {
    /// Appends a piece. Looks at each byte a bounded number of times, however small the pieces are.
    pub(super) fn take(&mut self, piece: &[u8]) {
        if self.is_over() {
            return;
        }
        // The blank line may have begun in the previous piece.
        let from = self.bytes.len().saturating_sub(END.len() - 1);
        let room = MOST_BYTES + 1 - self.bytes.len();
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        let found = self.bytes[from..].windows(END.len()).position(|bytes| bytes == END);
        self.end = found.map(|at| from + at + END.len());
    }

    /// Returns whether nothing more needs to be read: the head is complete or too long.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some() || self.bytes.len() > MOST_BYTES
    }

    /// Returns the request, or the status that refuses it.
    pub(super) fn parse(&self) -> Result<Request, &'static str> {
        const BAD: &str = "400 Bad Request";
        let Some(end) = self.end.filter(|&end| end <= MOST_BYTES) else {
            let is_long = self.bytes.len() > MOST_BYTES;
            return Err(if is_long { "431 Request Header Fields Too Large" } else { BAD });
        };
        // A body is ignored, because a GET needs none.
        let head = str::from_utf8(&self.bytes[..end - END.len()]).map_err(|_| BAD)?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        let is_http = version.is_some_and(|version| version.starts_with("HTTP/1."));
        if !is_http || words.next().is_some() {
            return Err(BAD);
        }
        let body = match method {
            Some("GET") => true,
            Some("HEAD") => false,
            _ => return Err("405 Method Not Allowed"),
        };
        let path = target.unwrap_or_default().split('?').next();
        if path != Some("/metrics") {
            return Err("404 Not Found");
        }
        let fields = lines.filter_map(|line| line.split_once(':'));
        let accepts = fields.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
        let accepts: Vec<&str> = accepts.map(|(_, value)| value).collect();
        Ok(Request { format: Format::accepted(&accepts.join(",")), body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";

    fn of(request: &[u8]) -> Result<Request, &'static str> {
        let mut head = Head::default();
        head.take(request);
        let mut drop_by_drop = Head::default();
        request.chunks(1).for_each(|byte| drop_by_drop.take(byte));
        assert_eq!(drop_by_drop.parse(), head.parse(), "{request:?}");
        head.parse()
    }

    #[test]
    fn a_scrape_is_understood_and_anything_else_refused() {
        let asked = |format, body| Ok(Request { format, body });
        assert_eq!(of(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), asked(Format::Text, true));
        let open = format!("GET /metrics?x=1 HTTP/1.1\r\naCCept: {OPEN}\r\n\r\n");
        assert_eq!(of(open.as_bytes()), asked(Format::OpenMetrics, true));
        assert_eq!(of(b"HEAD /metrics HTTP/1.0\r\n\r\n"), asked(Format::Text, false));
        assert_eq!(of(b"GET /metrics HTTP/1.0\r\n\r\n\xff\xff"), asked(Format::Text, true));
        for (bad, status) in [
            ("", "400"),
            ("GET /metrics HTTP/1.1\r\n", "400"),
            ("GET /metrics\r\n\r\n", "400"),
            ("GET /metrics HTTP/1.1 x\r\n\r\n", "400"),
            ("GET /metrics HTTP/2\r\n\r\n", "400"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/.. HTTP/1.1\r\n\r\n", "404"),
        ] {
            let said = of(bad.as_bytes());
            assert!(said.is_err_and(|said| said.starts_with(status)), "{bad:?}: {said:?}");
        }
        assert!(of(&[0xff; 100]).is_err());
    }

    #[test]
    fn a_head_of_any_length_takes_bounded_memory() {
        let mut head = Head::default();
        for _ in 0..1_000 {
            head.take(&[b'a'; 1024]);
        }
        assert!(head.is_over() && head.bytes.len() == MOST_BYTES + 1);
        assert!(head.parse().is_err_and(|said| said.starts_with("431")));
        // The longest permitted head, and one that is a byte longer.
        for (bytes, is_read) in [(MOST_BYTES, true), (MOST_BYTES + 1, false)] {
            let start = b"GET /metrics HTTP/1.1\r\nx:";
            let mut request = start.to_vec();
            request.resize(bytes - END.len(), b'x');
            request.extend(END);
            assert_eq!(of(&request).is_ok(), is_read, "{bytes}");
        }
    }
}
