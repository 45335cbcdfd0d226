//! Chunked bodies: what decodes to what, and what is refused at which byte.
//!
//! Each input is given whole, cut at every byte, and followed by stray bytes.

use oxb_http::chunked::{ChunkError, ChunkedDecoder, Progress};
use proptest::prelude::*;

/// The data, the bytes consumed and whether the end was seen.
type Decoded = Result<(Vec<u8>, usize, bool), ChunkError>;

fn decode(pieces: &[&[u8]]) -> Decoded {
    let mut decoder = ChunkedDecoder::new();
    let mut body = Vec::new();
    let mut total = 0;
    for piece in pieces {
        let Progress { consumed, done } = decoder.decode(piece, |data| body.extend_from_slice(data))?;
        total += consumed;
        assert_eq!(done, decoder.is_done());
        assert!(done || consumed == piece.len(), "a decoder that is not done takes everything");
        if done {
            return Ok((body, total, true));
        }
    }
    Ok((body, total, false))
}

fn check(input: &[u8], expected: &Decoded) {
    let text = String::from_utf8_lossy(input);
    assert_eq!(&decode(&[input]), expected, "{text:?}");
    for cut in 0..=input.len() {
        let (one, other) = input.split_at(cut);
        assert_eq!(&decode(&[one, other]), expected, "{text:?} cut at {cut}");
    }
    let bytewise: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(&decode(&bytewise), expected, "{text:?} byte by byte");
    if !matches!(expected, Ok((_, _, false))) {
        for stray in [&b"GET / HTTP/1.1\r\n"[..], b"\r\n", b"\0", b"0\r\n\r\n"] {
            assert_eq!(&decode(&[&[input, stray].concat()]), expected, "{text:?} followed by {stray:?}");
        }
    }
}

#[test]
fn a_body_that_keeps_the_grammar_decodes_to_its_data() {
    const BODIES: &[(&str, &str)] = &[
        ("0\r\n\r\n", ""),
        ("000\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
        ("00a\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
        ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        ("1;name\r\nx\r\n0;last\r\n\r\n", "x"),
        ("1 ; name = value;other=\"a;\\\"b\" \r\nx\r\n0\r\n\r\n", "x"),
        ("1\t;a\r\nx\r\n0\r\n\r\n", "x"),
        ("1\r\nx\r\n0\r\nChecksum: abc\r\nOther:\r\n\r\n", "x"),
    ];
    for (input, body) in BODIES {
        check(input.as_bytes(), &Ok((body.as_bytes().to_vec(), input.len(), true)));
    }
}

#[test]
fn a_body_that_has_not_ended_waits() {
    for (input, body) in
        [("", ""), ("5", ""), ("5\r\nhel", "hel"), ("5\r\nhello\r\n0\r\n", "hello"), ("0\r\nA: b\r\n\r", "")]
    {
        check(input.as_bytes(), &Ok((body.as_bytes().to_vec(), input.len(), false)));
    }
}

#[test]
fn a_body_that_breaks_the_grammar_is_refused() {
    use ChunkError::{DataEnd, Overhead, Size, Trailer};
    let long_extension = format!("1;{}\r\n", "x".repeat(8192));
    let long_trailer = format!("0\r\nA:{}\r\n", "x".repeat(8192));
    let zeros = format!("{}\r\n", "0".repeat(8200));
    let many = format!("{}0\r\n\r\n", "1;xxxxxxx\r\na\r\n".repeat(1100));
    let cases: &[(&str, ChunkError)] = &[
        // R02: the size disagrees with the data.
        ("4\r\nHello\r\n0\r\n\r\n", DataEnd),
        ("6\r\nHello\r\n0\r\n\r\n", DataEnd),
        ("5\r\nhello0\r\n\r\n", DataEnd),
        ("5\r\nhello\n0\r\n\r\n", DataEnd),
        ("5\r\nhello\rx", DataEnd),
        ("\r\n", Size),
        ("g\r\n", Size),
        ("-1\r\n", Size),
        ("+1\r\n", Size),
        (" 1\r\n", Size),
        ("0x1\r\n", Size),
        ("1 \r\nx\r\n", Size),
        ("1 2\r\n", Size),
        ("1\nx\r\n", Size),
        ("1\rx", Size),
        (";a\r\n", Size),
        ("1;a\nx", Size),
        ("1;a\"\r\n", Size),
        ("1;a\0\r\n", Size),
        ("1;a=\"\\\r\n", Size),
        ("10000000000000000\r\n", Size),
        ("fffffffffffffffff\r\n", Size),
        ("0\r\n A: b\r\n\r\n", Trailer),
        ("0\r\nA: b\r\n c\r\n\r\n", Trailer),
        ("0\r\nA : b\r\n\r\n", Trailer),
        ("0\r\nA\r\n\r\n", Trailer),
        ("0\r\n: b\r\n\r\n", Trailer),
        ("0\r\nA: b\n\r\n", Trailer),
        ("0\r\nA: \u{1}\r\n\r\n", Trailer),
        ("0\r\n\n", Trailer),
        ("0\r\n\rx", Trailer),
    ];
    for (input, error) in cases {
        check(input.as_bytes(), &Err(*error));
    }
    for input in [&long_extension, &long_trailer, &zeros, &many] {
        assert_eq!(decode(&[input.as_bytes()]), Err(Overhead), "{:?}...", &input[..12]);
    }
}

#[test]
fn the_largest_size_is_taken_without_waiting_for_its_data() {
    let mut decoder = ChunkedDecoder::new();
    let mut count = 0;
    let progress = decoder.decode(b"ffffffffffffffff\r\nabc", |data| count += data.len()).unwrap();
    assert_eq!((progress, count), (Progress { consumed: 21, done: false }, 3));
}

proptest! {
    #[test]
    fn what_was_encoded_decodes_to_the_same_bytes_however_it_is_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        cuts in prop::collection::vec(0_usize..300, 0..6),
        stray in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut wire = Vec::new();
        for chunk in &chunks {
            wire.extend_from_slice(format!("{:X};n=v\r\n", chunk.len()).as_bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b"0\r\nT: v\r\n\r\n");
        let len = wire.len();
        wire.extend_from_slice(&stray);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (wire.len() + 1)).collect();
        cuts.extend([0, wire.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &wire[pair[0]..pair[1]]).collect();
        prop_assert_eq!(decode(&pieces), Ok((chunks.concat(), len, true)));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(input in "[0-9a-f\r\n;\": ]{0,60}") {
        let _ = decode(&[input.as_bytes()]);
    }
}
