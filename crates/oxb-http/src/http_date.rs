//! Dates as header fields carry them: IMF-fixdate of RFC 9110 §5.6.7.
//!
//! Invariant: 29 ASCII bytes whatever the time; a clock beyond the year 9999 stays at its last second.

use crate::calendar;

const DAY_NAMES: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTH_NAMES: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// 9999-12-31 23:59:59.
const LAST_SECOND: u64 = 253_402_300_799;

/// The date of a Unix time in seconds, ready for a `Date` field.
///
/// ```
/// assert_eq!(&oxb_http::http_date::imf_fixdate(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
/// ```
pub fn imf_fixdate(unix_seconds: u64) -> [u8; 29] {
    let seconds = unix_seconds.min(LAST_SECOND);
    let day = i64::try_from(seconds / 86400).expect("bounded by the year 9999");
    let date = calendar::civil(day).expect("from 1970 to 9999");
    let second_of_day = seconds % 86400;
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(DAY_NAMES[calendar::weekday(day)]);
    put_two(&mut text, 5, u64::from(date.day));
    text[8..11].copy_from_slice(MONTH_NAMES[usize::from(date.month) - 1]);
    put_two(&mut text, 12, u64::from(date.year / 100));
    put_two(&mut text, 14, u64::from(date.year % 100));
    put_two(&mut text, 17, second_of_day / 3600);
    put_two(&mut text, 20, second_of_day / 60 % 60);
    put_two(&mut text, 23, second_of_day % 60);
    text
}

fn put_two(text: &mut [u8; 29], at: usize, number: u64) {
    let digit = |value: u64| b'0' + u8::try_from(value % 10).expect("one digit");
    text[at] = digit(number / 10);
    text[at + 1] = digit(number);
}

#[cfg(test)]
mod tests {
    use super::imf_fixdate;

    #[test]
    fn dates_are_those_of_the_calendar() {
        const DATES: &[(u64, &str)] = &[
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (seconds, text) in DATES {
            assert_eq!(imf_fixdate(*seconds), text.as_bytes(), "{seconds}");
        }
    }
}
