//! Loops for Rust programs: a thread each, that runs closures.
//!
//! Such a loop waits on nothing but its jobs, so it parks instead of polling a descriptor.
//!
//! Invariant: every job that was taken is run once, also after `stop`, and its slot is released whether it returns or
//! panics. A loop that would sleep while jobs wait elsewhere looks again after 10 ms (invariant 13).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock;
use crate::loop_set::{LoopSet, LoopSetError, LoopSetOptions, SubmitError, Worker};
use crate::units::{LoopId, Micros};

const TICK: Duration = Duration::from_millis(10);

/// A closure for a Rust loop.
///
/// ```
/// let job: oxb_core::RustJob = Box::new(|context| println!("on loop {}", context.loop_id.index()));
/// ```
pub type RustJob = Box<dyn FnOnce(&JobContext) + Send>;

/// What a job is told when it begins.
///
/// ```
/// use oxb_core::{LoopSetOptions, RustLoops};
/// use std::sync::mpsc;
///
/// let loops = RustLoops::start(&LoopSetOptions::default())?;
/// let (tx, rx) = mpsc::channel();
/// loops.submit(move |context| tx.send(context.clone()).expect("the test waits")).expect("there is room");
/// let context = rx.recv().expect("the job ran");
/// assert!(!context.late);
/// # Ok::<(), oxb_core::StartError>(())
/// ```
#[derive(Clone, Debug)]
pub struct JobContext {
    /// The loop it runs on.
    pub loop_id: LoopId,
    /// How long it was queued.
    pub waited: Micros,
    /// Whether that is over the queue timeout: better refuse than begin.
    pub late: bool,
}

/// Why Rust loops could not start.
///
/// ```
/// use oxb_core::{LoopSetOptions, RustLoops, StartError};
///
/// let options = LoopSetOptions { loop_count: 0, ..LoopSetOptions::default() };
/// assert!(matches!(RustLoops::start(&options), Err(StartError::Set(_))));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options are out of range.
    #[error(transparent)]
    Set(#[from] LoopSetError),
    /// The system gives no more threads. Those started before have ended again.
    #[error("no thread for a loop: {source}")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },
}

/// Loops that run Rust closures, a thread each. Dropping it stops them, as [`stop`](Self::stop) does.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use oxb_core::{LoopSetOptions, RustLoops};
///
/// let loops = RustLoops::start(&LoopSetOptions { loop_count: 2, ..LoopSetOptions::default() })?;
/// let sum = Arc::new(AtomicU32::new(0));
/// for number in 1..=10 {
///     let sum = Arc::clone(&sum);
///     loops.submit(move |_| { sum.fetch_add(number, Ordering::Relaxed); }).expect("there is room");
/// }
/// loops.stop();
/// assert_eq!(sum.load(Ordering::Relaxed), 55);
/// # Ok::<(), oxb_core::StartError>(())
/// ```
pub struct RustLoops {
    set: Arc<LoopSet<RustJob, ()>>,
    panics: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl RustLoops {
    /// Starts the threads.
    ///
    /// # Errors
    /// Options out of range, or no thread left.
    ///
    /// ```
    /// use oxb_core::{LoopSetOptions, RustLoops};
    /// let loops = RustLoops::start(&LoopSetOptions::default())?;
    /// # Ok::<(), oxb_core::StartError>(())
    /// ```
    pub fn start(options: &LoopSetOptions) -> Result<RustLoops, StartError> {
        let set = Arc::new(LoopSet::new_parked(options)?);
        let mut loops = RustLoops { set, panics: Arc::default(), threads: Vec::new() };
        for index in 0..options.loop_count {
            let worker = Worker::new(&loops.set, index).expect("the set is new, so no loop has an owner");
            let panics = Arc::clone(&loops.panics);
            let thread = thread::Builder::new()
                .name(format!("oxb-loop-{index}"))
                .spawn(move || run(&worker, &panics))
                .map_err(|source| StartError::Thread { source })?;
            loops.threads.push(thread);
        }
        Ok(loops)
    }

    /// Gives a closure to a loop.
    ///
    /// # Errors
    /// All loops are full, or stopping; the closure comes back.
    ///
    /// ```
    /// # use oxb_core::{LoopSetOptions, RustLoops};
    /// # let loops = RustLoops::start(&LoopSetOptions::default())?;
    /// loops.submit(|_| println!("runs on a loop")).expect("there is room");
    /// # Ok::<(), oxb_core::StartError>(())
    /// ```
    pub fn submit(
        &self,
        job: impl FnOnce(&JobContext) + Send + 'static,
    ) -> Result<LoopId, SubmitError<RustJob>> {
        self.set.submit(Box::new(job))
    }

    /// The loops' set, for its gauges.
    ///
    /// ```
    /// # use oxb_core::{LoopSetOptions, RustLoops};
    /// # let loops = RustLoops::start(&LoopSetOptions::default())?;
    /// assert_eq!(loops.loop_set().loop_count(), 1);
    /// # Ok::<(), oxb_core::StartError>(())
    /// ```
    pub fn loop_set(&self) -> &Arc<LoopSet<RustJob, ()>> {
        &self.set
    }

    /// How many jobs panicked. Each cost its own work only.
    ///
    /// ```
    /// # use oxb_core::{LoopSetOptions, RustLoops};
    /// # let loops = RustLoops::start(&LoopSetOptions::default())?;
    /// assert_eq!(loops.panic_count(), 0);
    /// # Ok::<(), oxb_core::StartError>(())
    /// ```
    pub fn panic_count(&self) -> u64 {
        self.panics.load(Ordering::Relaxed) // a gauge
    }

    /// Takes no more jobs, waits until all that were taken have run, and ends the threads.
    ///
    /// ```
    /// # use oxb_core::{LoopSetOptions, RustLoops};
    /// let loops = RustLoops::start(&LoopSetOptions::default())?;
    /// loops.stop();
    /// # Ok::<(), oxb_core::StartError>(())
    /// ```
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for RustLoops {
    fn drop(&mut self) {
        self.set.stop();
        for thread in self.threads.drain(..) {
            // A job may own the loops and be the last to; its own thread then ends after it.
            if thread.thread().id() != thread::current().id() {
                // Jobs are caught, so a panic here is one of this module; it was printed, and there is no one to tell.
                let _ = thread.join();
            }
        }
    }
}

fn run(worker: &Worker<RustJob, ()>, panics: &AtomicU64) {
    let set = worker.loop_set();
    while !worker.is_drained() {
        let is_any_waiting = set.tick(clock::now());
        worker.wait(is_any_waiting.then_some(TICK)).expect("a parker does not fail");
        worker.acknowledge(); // then drain: invariant 3
        while let Some(taken) = worker.pop().or_else(|| worker.steal()) {
            let context = JobContext { loop_id: worker.loop_id(), waited: taken.waited, late: taken.late };
            worker.begin_step(taken.taken_at);
            // The closure is consumed, so nothing it left half done is used again.
            if catch_unwind(AssertUnwindSafe(|| (taken.job)(&context))).is_err() {
                panics.fetch_add(1, Ordering::Relaxed); // a gauge
            }
            worker.end_step();
            set.release(taken.slot);
        }
    }
}
