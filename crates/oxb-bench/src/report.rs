//! Reports of saved runs: tables, percentiles, plots, comparisons and the page of figures.
//!
//! Everything here reads the `result.json` of a run and measures nothing.
//!
//! **Invariant:** a figure in a report is a median over samples that were not rejected, and stands beside the range of
//! its own rounds; what was not measured is named, never left out.

mod compare;
mod document;
mod figures;
mod plot;
mod result;
mod table;

pub use self::compare::{Comparison, Refusal, Verdict, compare};
pub use self::document::{NotFit, document};
pub use self::figures::{FIGURES, Figure};
pub use self::plot::{bars, curves, scaling};
pub use self::result::{Bar, Row, Saved, Unreadable};
pub use self::table::{csv, markdown};
