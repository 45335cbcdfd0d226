//! `cargo xtask bench`: runs the benchmarks.

use lexopt::Parser;

use crate::error::Error;

/// Runs the subcommand.
pub(crate) fn run(_arguments: Parser) -> Result<(), Error> {
    Err(Error::failed("no benchmark has landed yet"))
}
