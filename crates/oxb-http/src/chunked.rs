//! The chunked transfer coding of a request body (RFC 9112 §7.1).
//!
//! Extensions and trailers are read and dropped; both are bounded in sum.
//!
//! Invariant: the decoder takes no byte beyond the end of the body, and refuses every deviation from the grammar
//! as soon as its byte is seen: a size that disagrees with its data never looks like a complete body.

/// Bytes of extensions and trailers a body may have in sum.
const MAX_OVERHEAD: usize = 8192;

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that belong to the body; fewer than given only when `done`.
    pub consumed: usize,
    /// The body has ended; what follows is the next request.
    pub done: bool,
}

/// Why a chunked body was refused. The answer is always a 400 and the end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// The line with the chunk's size is not one, or the size does not fit 64 bits.
    #[error("bad chunk size")]
    Size,
    /// The data of a chunk is not followed by CRLF: the size was wrong.
    #[error("chunk data disagrees with its size")]
    DataEnd,
    /// The trailer section is not one.
    #[error("bad trailer section")]
    Trailer,
    /// Extensions and trailers are over 8 KiB in sum.
    #[error("chunk extensions or trailers too large")]
    Overhead,
}

/// Decodes one chunked body piece by piece.
///
/// ```
/// use oxb_http::chunked::ChunkedDecoder;
///
/// let mut decoder = ChunkedDecoder::new();
/// let mut body = Vec::new();
/// let progress = decoder.decode(b"5\r\nhello\r\n0\r\n\r\nGET /", |data| body.extend_from_slice(data))?;
/// assert_eq!((body.as_slice(), progress.consumed, progress.done), (&b"hello"[..], 15, true));
/// # Ok::<(), oxb_http::chunked::ChunkError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ChunkedDecoder {
    state: State,
    /// Of the chunk: its size so far, then the data still to come.
    left: u64,
    overhead: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The first digit of a size.
    #[default]
    SizeStart,
    Size,
    /// Whitespace before an extension; only a `;` may follow (RFC 9112 §7.1.1).
    SizeSpace,
    Extension,
    /// Inside a quoted extension value, where a `;` is text.
    Quoted,
    QuotedPair,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The first byte of a line in the trailer section.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

impl ChunkedDecoder {
    /// A decoder at the beginning of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the end of the body was seen.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes the next piece of the connection's bytes and gives the data in it, in parts, to `out`.
    ///
    /// # Errors
    ///
    /// The body breaks the grammar or a bound. Data before the fault was given out; the decoder is of no more use.
    pub fn decode(&mut self, input: &[u8], mut out: impl FnMut(&[u8])) -> Result<Progress, ChunkError> {
        let mut position = 0;
        while position < input.len() && self.state != State::Done {
            if self.state == State::Data {
                let rest = &input[position..];
                let len = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
                out(&rest[..len]);
                position += len;
                self.left -= len as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            self.state = self.step(input[position])?;
            position += 1;
        }
        Ok(Progress { consumed: position, done: self.state == State::Done })
    }

    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        match self.state {
            State::SizeStart => {
                self.left = u64::from(hex_digit(byte).ok_or(ChunkError::Size)?);
                Ok(State::Size)
            }
            State::Size => match (byte, hex_digit(byte)) {
                (_, Some(digit)) => {
                    // Leading zeros keep the value small, so they are bounded as overhead.
                    if self.left == 0 {
                        self.count_overhead()?;
                    }
                    self.left = self.left.checked_mul(16).ok_or(ChunkError::Size)? + u64::from(digit);
                    Ok(State::Size)
                }
                (b'\r', _) => Ok(State::SizeLf),
                (b';', _) => self.counted(State::Extension),
                (b' ' | b'\t', _) => self.counted(State::SizeSpace),
                _ => Err(ChunkError::Size),
            },
            State::SizeSpace => match byte {
                b' ' | b'\t' => self.counted(State::SizeSpace),
                b';' => self.counted(State::Extension),
                _ => Err(ChunkError::Size),
            },
            State::Extension => match byte {
                b'\r' => Ok(State::SizeLf),
                b'"' => self.counted(State::Quoted),
                _ if is_text(byte) => self.counted(State::Extension),
                _ => Err(ChunkError::Size),
            },
            State::Quoted => match byte {
                b'"' => self.counted(State::Extension),
                b'\\' => self.counted(State::QuotedPair),
                _ if is_text(byte) => self.counted(State::Quoted),
                _ => Err(ChunkError::Size),
            },
            State::QuotedPair if is_text(byte) => self.counted(State::Quoted),
            State::QuotedPair => Err(ChunkError::Size),
            State::SizeLf if byte != b'\n' => Err(ChunkError::Size),
            State::SizeLf => Ok(if self.left == 0 { State::TrailerStart } else { State::Data }),
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => Ok(State::SizeStart),
            State::DataCr | State::DataLf => Err(ChunkError::DataEnd),
            State::TrailerStart if byte == b'\r' => Ok(State::EndLf),
            State::TrailerStart if is_token(byte) => self.counted(State::TrailerName),
            State::TrailerName if byte == b':' => self.counted(State::TrailerValue),
            State::TrailerName if is_token(byte) => self.counted(State::TrailerName),
            State::TrailerValue if byte == b'\r' => Ok(State::TrailerLf),
            State::TrailerValue if is_text(byte) => self.counted(State::TrailerValue),
            State::TrailerLf if byte == b'\n' => Ok(State::TrailerStart),
            State::EndLf if byte == b'\n' => Ok(State::Done),
            State::TrailerStart
            | State::TrailerName
            | State::TrailerValue
            | State::TrailerLf
            | State::EndLf => Err(ChunkError::Trailer),
            State::Data | State::Done => unreachable!("decode() gives no byte to these states"),
        }
    }

    fn counted(&mut self, next: State) -> Result<State, ChunkError> {
        self.count_overhead()?;
        Ok(next)
    }

    fn count_overhead(&mut self) -> Result<(), ChunkError> {
        self.overhead += 1;
        if self.overhead > MAX_OVERHEAD { Err(ChunkError::Overhead) } else { Ok(()) }
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// What a field value or an extension may hold: no control character but the tab.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// A byte of a token (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
