//! The server: sockets, I/O threads, and their end.
//!
//! [`Server::bind`] takes the place and starts nothing; [`Bound::start`] starts the I/O threads; [`Running`]
//! drains and closes them. No signal is touched and nothing of the process is owned, so several servers may
//! run in one process.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oxb_core::ReturnQueue;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;
use tokio::net::unix::pipe::Receiver;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::connection::Connection;
use crate::exchange::Envelope;
use crate::io_thread;
use crate::listener::{Address, BindError, Listener};
use crate::options::{Place, ServerOptions};
use crate::router::Router;
use crate::service::Service;
use crate::site::{RouteOptions, Site};
use crate::transport::Transport;

/// Descriptors kept free for everything but connections.
const SPARE_DESCRIPTORS: u64 = 64;
/// Descriptors that must be left when everything is ready to accept: one connection, and what its handler opens.
const LEAST_DESCRIPTORS: usize = 8;

/// Why a server does not run.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It cannot listen.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system gives no thread or event queue.
    #[error("cannot start an I/O thread: {0}")]
    Thread(io::Error),
    /// No connection could be accepted, or nothing opened to answer it.
    #[error(
        "only {free} file descriptors are left of the {limit} that the limit of this process allows, and a server \
         needs {LEAST_DESCRIPTORS} to answer anybody: raise the limit, as with `ulimit -n 1024`"
    )]
    Descriptors {
        /// How many are left.
        free: usize,
        /// The soft limit.
        limit: u64,
    },
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) {
            Self::Descriptors { free: 0, limit: descriptor_limit() }
        } else {
            Self::Thread(error)
        }
    }
}

fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Entry point.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Takes the place to listen at. Nothing is accepted yet; connections wait in the system's backlog.
    ///
    /// # Errors
    /// [`ServeError::Bind`] when the place cannot be had.
    pub fn bind(place: Place, options: ServerOptions) -> Result<Bound, ServeError> {
        Ok(Bound { listener: Listener::open(place, options.backlog)?, options })
    }
}

/// What had to be changed because descriptors are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// What was asked for.
    pub from: usize,
    /// What is held.
    pub to: usize,
    /// The descriptor limit.
    pub limit: u64,
}

/// A server that listens and does not run yet.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    options: ServerOptions,
}

impl Bound {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.listener.address
    }

    /// Raises the soft descriptor limit to the hard one; where `max_connections` still does not fit, lowers that
    /// and says so.
    pub fn fit_descriptors(&mut self) -> Option<Lowered> {
        let limits = getrlimit(Resource::Nofile);
        // Where raising fails, the soft limit stays what counts.
        let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
        let limit = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limits.maximum,
            Err(_) => limits.current,
        }?;
        let fitting = usize::try_from(limit.saturating_sub(SPARE_DESCRIPTORS)).unwrap_or(usize::MAX).max(1);
        let from = self.options.max_connections;
        if from <= fitting {
            return None;
        }
        self.options.max_connections = fitting;
        Some(Lowered { from, to: fitting, limit })
    }

    /// Starts the I/O threads and accepts. `route_options[i]` belongs to the i-th route of `router`.
    ///
    /// # Errors
    /// [`ServeError::Descriptors`] when so few are left that nobody could be answered, [`ServeError::Thread`] when
    /// the system gives no thread; nothing is left running then.
    pub fn start(
        self,
        router: Router,
        route_options: Vec<RouteOptions>,
        service: Arc<dyn Service>,
    ) -> Result<Running, ServeError> {
        let Self { listener, options } = self;
        let connections = Arc::new(Semaphore::new(options.max_connections.min(Semaphore::MAX_PERMITS)));
        let thread_count = options.io_threads.max(1);
        let options = ServerOptions { io_threads: thread_count, ..options };
        let site = Arc::new(Site::new(router, route_options, service, options));
        let mut running =
            Running { site, threads: Vec::new(), address: listener.address.clone(), listener: None };
        let mut prepared = Vec::with_capacity(thread_count);
        for index in 0..thread_count {
            let returns = Arc::new(ReturnQueue::new()?);
            let thread = IoThread {
                index,
                site: Arc::clone(&running.site),
                returns: Arc::clone(&returns),
                connections: Arc::clone(&connections),
            };
            let runtime = thread.runtime()?;
            let (socket, signal) = {
                let _in_runtime = runtime.enter();
                // Watched so that a push from another thread ends the sleep. Nobody reads it: the watch is
                // edge-triggered, and what was pushed is found when the thread parks again. The type is that
                // of any readable descriptor; tokio's other way to watch one is unsafe.
                let signal = returns.signal().as_fd().try_clone_to_owned()?;
                (AnyListener::new(&listener)?, Receiver::from_owned_fd_unchecked(signal)?)
            };
            prepared.push((returns, thread, runtime, socket, signal));
        }
        keep_descriptors(&listener)?;
        for (index, (returns, thread, runtime, socket, signal)) in prepared.into_iter().enumerate() {
            // An error here drops `running`, which closes what was started.
            let handle = std::thread::Builder::new()
                .name(format!("oxbrook-io-{index}"))
                .spawn(move || thread.run(&runtime, socket, signal))?;
            running.threads.push(Thread { returns, handle: Some(handle) });
        }
        running.listener = Some(listener);
        Ok(running)
    }
}

/// Whether enough descriptors are left to accept and answer, found out by taking them for a moment.
fn keep_descriptors(listener: &Listener) -> Result<(), ServeError> {
    let mut taken = Vec::with_capacity(LEAST_DESCRIPTORS);
    while taken.len() < LEAST_DESCRIPTORS {
        match listener.share() {
            Ok(copy) => taken.push(copy),
            Err(_) => {
                return Err(ServeError::Descriptors { free: taken.len(), limit: descriptor_limit() });
            }
        }
    }
    Ok(())
}

struct Thread {
    returns: Arc<ReturnQueue<Envelope>>,
    handle: Option<JoinHandle<()>>,
}

/// A server that runs. Dropped, it is closed at once.
pub struct Running {
    site: Arc<Site>,
    threads: Vec<Thread>,
    address: Address,
    listener: Option<Listener>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Stops accepting, closes silent and idle connections at once; last answers carry `Connection: close`.
    pub fn drain(&mut self) {
        // The listening socket goes first, and with it a socket file that this server made.
        self.listener = None;
        self.tell(|| Envelope::Drain);
    }

    /// Requests that are with the service or whose answer is on its way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.site.busy()
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.site.open()
    }

    /// Bytes of collected bodies now.
    #[must_use]
    pub fn buffered(&self) -> u64 {
        self.site.budget.used()
    }

    /// Waits until every connection is closed. False when `timeout` passed first.
    #[must_use]
    pub fn wait_closed(&self, timeout: Duration) -> bool {
        self.site.wait_all_closed(timeout)
    }

    /// Closes every connection and ends the threads. Answers given before this are written, as far as their
    /// sockets take them at once.
    pub fn close(&mut self) {
        self.listener = None;
        self.tell(|| Envelope::Close);
        for thread in &mut self.threads {
            if let Some(handle) = thread.handle.take()
                && handle.join().is_err()
            {
                tracing::error!("an I/O thread ended by a panic");
            }
        }
    }

    fn tell(&self, envelope: impl Fn() -> Envelope) {
        for thread in &self.threads {
            thread.returns.push(envelope());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

struct IoThread {
    index: usize,
    site: Arc<Site>,
    returns: Arc<ReturnQueue<Envelope>>,
    connections: Arc<Semaphore>,
}

impl IoThread {
    fn runtime(&self) -> io::Result<tokio::runtime::Runtime> {
        tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .on_thread_park(io_thread::park)
            .on_thread_unpark(io_thread::unpark)
            .build()
    }

    fn run(self, runtime: &tokio::runtime::Runtime, listener: AnyListener, signal: Receiver) {
        let poke = Arc::new(Notify::new());
        let closed = Arc::new(Notify::new());
        io_thread::install(
            self.index,
            Arc::clone(&self.site),
            Arc::clone(&self.returns),
            Arc::clone(&poke),
            Arc::clone(&closed),
        );
        runtime.block_on(async {
            tokio::spawn(io_thread::keep_time(poke));
            let accepting = tokio::spawn(accept(listener, self.site, self.connections));
            io_thread::with(|io| io.set_accepting(accepting.abort_handle()));
            closed.notified().await;
            io_thread::write_what_came().await;
        });
        drop(signal);
        // Connections leave their seats while the runtime drops their tasks.
    }
}

/// How soon the same trouble with accepting is logged again.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// Accepts while connections are free.
async fn accept(listener: AnyListener, site: Arc<Site>, connections: Arc<Semaphore>) {
    let mut said: Option<Instant> = None;
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        if let Err(error) = listener.accept(&site, permit).await {
            match error.kind() {
                io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset => {}
                _ => {
                    // Out of descriptors or memory: those in use come back as connections end.
                    if said.is_none_or(|at| at.elapsed() >= SAID_AGAIN) {
                        tracing::error!(%error, "cannot accept a connection; tried again until it can");
                        said = Some(Instant::now());
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

enum AnyListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AnyListener {
    fn new(listener: &Listener) -> io::Result<Self> {
        let socket = listener.share()?;
        match listener.address {
            Address::Tcp(_) => TcpListener::from_std(socket.into()).map(Self::Tcp),
            Address::Unix(_) => UnixListener::from_std(socket.into()).map(Self::Unix),
        }
    }

    async fn accept(&self, site: &Arc<Site>, permit: OwnedSemaphorePermit) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Answers leave when they are written; a socket that refuses is still served.
                drop(stream.set_nodelay(true));
                let ip = match peer.ip() {
                    IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
                    v4 @ IpAddr::V4(_) => v4,
                };
                serve(stream, site, Some(ip), permit);
            }
            Self::Unix(listener) => serve(listener.accept().await?.0, site, None, permit),
        }
        Ok(())
    }
}

fn serve<T>(stream: T, site: &Arc<Site>, peer: Option<IpAddr>, permit: OwnedSemaphorePermit)
where
    T: Transport + Send + 'static,
{
    let connection = Connection::new(stream, Arc::clone(site), peer);
    tokio::spawn(async move {
        connection.await;
        drop(permit);
    });
}
