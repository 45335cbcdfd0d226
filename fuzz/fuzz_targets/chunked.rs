//! Chunked bodies: the verdict, the data and the end do not depend on where the input was cut, and a body that was
//! accepted is accepted again when its data is sent in one chunk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxb_http::chunked::{ChunkError, ChunkedDecoder};

fn decode(pieces: &[&[u8]]) -> (Vec<u8>, Result<(usize, bool), ChunkError>) {
    let mut decoder = ChunkedDecoder::new();
    let (mut body, mut total) = (Vec::new(), 0);
    for piece in pieces {
        match decoder.decode(piece, |data| body.extend_from_slice(data)) {
            Ok(progress) => total += progress.consumed,
            Err(error) => return (body, Err(error)),
        }
    }
    (body, Ok((total, decoder.is_done())))
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, wire)) = input.split_first() else { return };
    let whole = decode(&[wire]);
    let (one, other) = wire.split_at(usize::from(cut).min(wire.len()));
    assert_eq!(decode(&[one, other]), whole);
    let bytewise: Vec<&[u8]> = wire.chunks(1).collect();
    assert_eq!(decode(&bytewise), whole);
    if let (body, Ok((consumed, true))) = whole {
        assert!(wire[..consumed].ends_with(b"\r\n\r\n"));
        let size = if body.is_empty() { String::new() } else { format!("{:x}\r\n", body.len()) };
        let end = if body.is_empty() { &b"0\r\n\r\n"[..] } else { b"\r\n0\r\n\r\n" };
        let again = [size.as_bytes(), &body, end].concat();
        assert_eq!(decode(&[&again]), (body, Ok((again.len(), true))));
    }
});
