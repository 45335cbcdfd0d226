//! Dates and times of ISO 8601, in the forms `datetime.fromisoformat` shares with it.
//!
//! Invariant: a date that is given out exists, in the years 1 to 9999; an offset is less than a day.

use super::Value;
use crate::calendar::{self, Civil};

/// `YYYY-MM-DD`, `YYYYMMDD`, `YYYY-DDD` or `YYYY-Www-D`.
pub(super) fn date(text: &[u8]) -> Option<Value> {
    let Civil { year, month, day } = civil(text)?;
    Some(Value::Date { year, month, day })
}

/// A date, `T`, `hh:mm[:ss[.fraction]]`, then nothing, `Z`, `±hh:mm`, `±hhmm` or `±hh`.
pub(super) fn datetime(text: &[u8]) -> Option<Value> {
    let split = text.iter().position(|&byte| byte == b'T')?;
    let Civil { year, month, day } = civil(&text[..split])?;
    let time = &text[split + 1..];
    let [h1, h2, b':', m1, m2, rest @ ..] = time else { return None };
    let hour = below(24, &[*h1, *h2])?;
    let minute = below(60, &[*m1, *m2])?;
    let (second, rest) = match rest {
        [b':', s1, s2, rest @ ..] => (Some(below(60, &[*s1, *s2])?), rest),
        _ => (None, rest),
    };
    let (microsecond, rest) = match (second, rest) {
        (Some(_), [b'.', rest @ ..]) => microseconds(rest)?,
        _ => (0, rest),
    };
    let offset_seconds = match rest {
        [] => None,
        _ => Some(offset(rest)?),
    };
    Some(Value::DateTime {
        year,
        month,
        day,
        hour,
        minute,
        second: second.unwrap_or(0),
        microsecond,
        offset_seconds,
    })
}

fn civil(text: &[u8]) -> Option<Civil> {
    let (year, rest) = text.split_at_checked(4)?;
    let year = number(year)?;
    if year == 0 {
        return None;
    }
    match *rest {
        [b'-', m1, m2, b'-', d1, d2] => calendar_date(year, [m1, m2], [d1, d2]),
        [b'-', d1, d2, d3] => {
            let day_of_year = number(&[d1, d2, d3])?;
            let last = if calendar::is_leap(year) { 366 } else { 365 };
            if !(1..=last).contains(&day_of_year) {
                return None;
            }
            calendar::civil(first_day(year) + i64::from(day_of_year) - 1)
        }
        [m1, m2, d1, d2] => calendar_date(year, [m1, m2], [d1, d2]),
        [b'-', b'W', w1, w2, b'-', weekday] => {
            let week = number(&[w1, w2])?;
            let weekday = number(&[weekday])?;
            week_date(year, week, weekday)
        }
        _ => None,
    }
}

fn calendar_date(year: u16, month: [u8; 2], day: [u8; 2]) -> Option<Civil> {
    let month = u8::try_from(number(&month)?).ok()?;
    let day = u8::try_from(number(&day)?).ok()?;
    let exists = (1..=12).contains(&month) && day >= 1 && day <= calendar::days_in_month(year, month);
    exists.then_some(Civil { year, month, day })
}

/// Week 1 is the one with the year's first Thursday; weekday 1 is Monday.
fn week_date(year: u16, week: u16, weekday: u16) -> Option<Civil> {
    if !(1..=7).contains(&weekday) || !(1..=53).contains(&week) {
        return None;
    }
    let monday = |year: u16, week: u16| {
        let fourth = first_day(year) + 3;
        // Day 4 was a Monday: 1970-01-05.
        fourth - (fourth - 4).rem_euclid(7) + 7 * (i64::from(week) - 1)
    };
    // A 53rd week must begin in its year: its Thursday lies in it.
    if week == 53 && monday(year, 53) + 3 >= first_day(year) + if calendar::is_leap(year) { 366 } else { 365 }
    {
        return None;
    }
    calendar::civil(monday(year, week) + i64::from(weekday) - 1)
}

fn first_day(year: u16) -> i64 {
    calendar::days(Civil { year, month: 1, day: 1 })
}

/// At least one digit; those after the sixth are cut off.
fn microseconds(text: &[u8]) -> Option<(u32, &[u8])> {
    let len = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    if len == 0 {
        return None;
    }
    let (fraction, rest) = text.split_at(len);
    let digit = |index: usize| fraction.get(index).map_or(0, |digit| u32::from(digit - b'0'));
    Some(((0..6).fold(0, |sum, index| sum * 10 + digit(index)), rest))
}

fn offset(text: &[u8]) -> Option<i32> {
    let (sign, hours, minutes) = match *text {
        [b'Z'] => return Some(0),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => (sign, [h1, h2], [m1, m2]),
        [sign, h1, h2] => (sign, [h1, h2], [b'0', b'0']),
        _ => return None,
    };
    let seconds = i32::from(below(24, &hours)?) * 3600 + i32::from(below(60, &minutes)?) * 60;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

fn below(limit: u16, digits: &[u8]) -> Option<u8> {
    number(digits).filter(|&number| number < limit).and_then(|number| u8::try_from(number).ok())
}

/// Up to four ASCII digits.
fn number(digits: &[u8]) -> Option<u16> {
    digits
        .iter()
        .try_fold(0_u16, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u16::from(byte - b'0')))
}
