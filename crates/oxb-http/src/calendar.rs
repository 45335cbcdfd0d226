//! Days of the proleptic Gregorian calendar as numbers.
//!
//! Invariant: `civil` undoes `days`, for every date of the years 1 to 9999.

/// A date that exists, of the years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: u16,
    pub(crate) month: u8,
    pub(crate) day: u8,
}

const DAYS_BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Day 0 is 1970-01-01; day 3 was a Sunday.
pub(crate) fn days(date: Civil) -> i64 {
    let year = i64::from(date.year) - 1;
    let month = usize::from(date.month) - 1;
    let leap_day = i64::from(month > 1 && is_leap(date.year));
    year * 365 + year / 4 - year / 100
        + year / 400
        + DAYS_BEFORE_MONTH[month]
        + leap_day
        + i64::from(date.day)
        - 719_163
}

/// The date of a day, `None` outside the years 1 to 9999.
pub(crate) fn civil(day: i64) -> Option<Civil> {
    // Counted from 0000-03-01, so that a leap day is the last of its year.
    let shifted = day.checked_add(719_468)?;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if !(1..=9999).contains(&year) {
        return None;
    }
    Some(Civil {
        year: u16::try_from(year).ok()?,
        month: u8::try_from(month).ok()?,
        day: u8::try_from(day_of_year - (153 * shifted_month + 2) / 5 + 1).ok()?,
    })
}

pub(crate) fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

pub(crate) fn days_in_month(year: u16, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 0 is Sunday.
pub(crate) fn weekday(day: i64) -> usize {
    usize::try_from((day + 4).rem_euclid(7)).expect("a remainder of 7 fits usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_ten_thousand_years_comes_back() {
        let first = days(Civil { year: 1, month: 1, day: 1 });
        let last = days(Civil { year: 9999, month: 12, day: 31 });
        let (mut year, mut month, mut date) = (1_u16, 1_u8, 1_u8);
        for day in first..=last {
            assert_eq!(civil(day), Some(Civil { year, month, day: date }));
            assert_eq!(days(Civil { year, month, day: date }), day);
            date += 1;
            if date > days_in_month(year, month) {
                (month, date) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((civil(first - 1), civil(last + 1), civil(i64::MAX)), (None, None, None));
        assert_eq!(weekday(0), 4, "1970-01-01 was a Thursday");
    }
}
