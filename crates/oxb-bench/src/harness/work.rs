//! Computing for a wanted time: so many turns of the loop of `/spin`, counted out on the interpreter that runs them.
//!
//! **Invariant:** a handler computes turns and never looks at a clock: one that only waits for a core would look as if
//! it computed meanwhile, and any number of loops would look as fast as one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use super::error::Error;
use super::kit::Ours;
use super::program;

/// The quickest of many short measurements: the others were disturbed.
const QUESTION: &str = "import time
def spin(count):
    total = 0
    for number in range(count):
        total += number
    return total
def taken():
    begin = time.perf_counter()
    spin(20000)
    return time.perf_counter() - begin
print(20000 / min(taken() for _ in range(300)) / 1e6)";

/// Turns a microsecond, by interpreter: asked once in a run.
static KNOWN: Mutex<Option<HashMap<PathBuf, f64>>> = Mutex::new(None);

/// A request that computes, and what its answer must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) turns: u64,
}

impl Work {
    /// So many turns.
    pub(crate) fn turns(turns: u64) -> Self {
        Self { turns }
    }

    /// As many as take that long on this interpreter and machine.
    pub(crate) fn lasting(ours: &Ours, microseconds: f64) -> Result<Self, Error> {
        Ok(Self { turns: (turns_a_microsecond(ours)? * microseconds) as u64 })
    }

    /// The route of the native app.
    pub(crate) fn path(&self) -> String {
        format!("/spin/{}", self.turns)
    }

    /// The sum of the turns.
    pub(crate) fn answer(&self) -> String {
        (self.turns * self.turns.saturating_sub(1) / 2).to_string()
    }
}

fn turns_a_microsecond(ours: &Ours) -> Result<f64, Error> {
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(turns) = known.get(&ours.python) {
        return Ok(*turns);
    }
    let text = program::output(Command::new(&ours.python).args(["-I", "-c", QUESTION]))?;
    let turns: f64 =
        text.trim().parse().map_err(|_| Error::failed(format!("not a number of turns: {text}")))?;
    known.insert(ours.python.clone(), turns);
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_sum_of_the_turns_and_nothing_for_none() {
        let sum = |turns: u64| (0..turns).sum::<u64>().to_string();
        for turns in [0, 1, 2, 20_000] {
            let work = Work::turns(turns);
            assert_eq!((work.answer(), work.path()), (sum(turns), format!("/spin/{turns}")));
        }
    }
}
