//! The framing of server-sent events (WHATWG HTML, §9.2.6), as far as tenure uses it.

/// Longest event, in bytes; a value may be 16 KiB, and this is far beyond.
const MAX_EVENT_BYTES: usize = 1 << 20;

/// One event of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) id: Option<String>,
    pub(super) event: String,
    pub(super) data: String,
}

/// The stream holds an event that is longer than any that this client takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Collects bytes, however they are cut, and gives events.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// What follows the last complete line.
    line: Vec<u8>,
    /// The last line ended with a carriage return: a line feed belongs to it.
    after_cr: bool,
    frame: Frame,
    /// Whether the frame has a `data` line, even an empty one.
    has_data: bool,
}

impl Parser {
    /// Takes the next bytes and appends the events that they complete.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<Frame>) -> Result<(), TooLong> {
        for &byte in bytes {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\r' | b'\n' => {
                    self.after_cr = byte == b'\r';
                    self.end_line(out);
                }
                _ => {
                    self.after_cr = false;
                    self.line.push(byte);
                }
            }
            if self.line.len() + self.frame.data.len() > MAX_EVENT_BYTES {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<Frame>) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            if std::mem::take(&mut self.has_data) {
                out.push(frame);
            }
            return;
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            // A comment (nothing before the colon), `retry`, or a field of a later time.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<Frame> {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        for chunk in chunks {
            parser.push(chunk, &mut out).unwrap();
        }
        out
    }

    fn frame(id: Option<&str>, event: &str, data: &str) -> Frame {
        Frame { id: id.map(str::to_owned), event: event.into(), data: data.into() }
    }

    #[test]
    fn events_are_found_wherever_the_bytes_are_cut_and_whatever_ends_a_line() {
        let expected =
            vec![frame(Some("7-0"), "granted", "{\"a\":\"ü🦀\"}"), frame(None, "", "x\n\ny")];
        let stream = ": hello\n\nid: 7-0\nevent:granted\ndata: {\"a\":\"ü🦀\"}\n\n: beat\nretry: 9\n\ndata: x\ndata\ndata: y\n\nid: 8\ndata: unfinished";
        for ending in ["\n", "\r\n", "\r"] {
            let bytes = stream.replace('\n', ending).into_bytes();
            assert_eq!(parse(&[&bytes]), expected);
            for cut in 0..bytes.len() {
                assert_eq!(parse(&[&bytes[..cut], &bytes[cut..]]), expected, "{ending:?} {cut}");
            }
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        let line = [b"data: ".as_slice(), &[b'x'; 1000], b"\n"].concat();
        let refused = (0..2000).any(|_| parser.push(&line, &mut out).is_err());
        assert!(refused && out.is_empty());
        let mut parser = Parser::default();
        assert_eq!(parser.push(&vec![b'x'; MAX_EVENT_BYTES + 1], &mut out), Err(TooLong));
    }
}
