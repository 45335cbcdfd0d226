//! Sockets that listen: TCP, Unix and inherited ones, made before any thread starts.
//!
//! A Unix socket file is never wider than asked for, not even for a moment; one nobody listens on is replaced
//! and keeps its rights; one in use is not stolen (R32).

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;

use crate::options::Place;

/// Why a server cannot listen.
#[derive(Debug, Error)]
pub enum BindError {
    /// The host is no address and no name that resolves.
    #[error("cannot resolve host {host:?}: {source}")]
    Host {
        /// As given.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The place is taken or not allowed.
    #[error("bind {place}: {source}")]
    Bind {
        /// Address or path.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// The inherited descriptor is no listening socket.
    #[error("descriptor {fd} is not a listening socket")]
    NotListening {
        /// Its number.
        fd: i32,
    },
}

/// Where a server listens, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and the port that was taken.
    Tcp(SocketAddr),
    /// A socket file, or the name an inherited socket has.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Socket,
    pub(crate) address: Address,
    /// Held for its end.
    _made: Option<Made>,
}

/// The socket file this process made, removed at the end when it still is that file.
#[derive(Debug)]
struct Made {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for Made {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path)
            .is_ok_and(|now| (now.dev(), now.ino()) == (self.device, self.inode))
        {
            // A file that cannot be removed any more is replaced by the next server.
            drop(fs::remove_file(&self.path));
        }
    }
}

impl Listener {
    /// Takes a place.
    pub(crate) fn open(place: Place, backlog: u32) -> Result<Self, BindError> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        match place {
            Place::Tcp { host, port } => Self::open_tcp(&host, port, backlog),
            Place::Unix { path, mode } => Self::open_unix(&path, mode, backlog)
                .map_err(|source| BindError::Bind { place: path.display().to_string(), source }),
            Place::Inherited(fd) => Self::inherit(fd),
        }
    }

    fn open_tcp(host: &str, port: u16, backlog: i32) -> Result<Self, BindError> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let unresolved = |source| BindError::Host { host: host.to_owned(), source };
        let addresses = match bare.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, port)],
            Err(_) => (host, port).to_socket_addrs().map_err(unresolved)?.collect(),
        };
        let listen = |address: SocketAddr| -> io::Result<(Socket, SocketAddr)> {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(backlog)?;
            socket.set_nonblocking(true)?;
            let taken = socket.local_addr()?.as_socket().unwrap_or(address);
            Ok((socket, taken))
        };
        // A name may have an address of a family that this machine does not speak; the first that works is taken.
        let mut refused = unresolved(io::ErrorKind::NotFound.into());
        for address in addresses {
            match listen(address) {
                Ok((socket, taken)) => return Ok(Self { socket, address: Address::Tcp(taken), _made: None }),
                Err(source) => refused = BindError::Bind { place: address.to_string(), source },
            }
        }
        Err(refused)
    }

    fn open_unix(path: &Path, mode: u32, backlog: i32) -> io::Result<Self> {
        // A path that is too long for an address: no client could name it.
        SockAddr::unix(path)?;
        let stale = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "a file that is no socket is there",
                ));
            }
            Ok(found) => {
                if !is_stale(path)? {
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
                }
                Some(found)
            }
        };
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // Bound under a name of its own in a directory only we may enter, given its rights, then moved into
        // place: the file is never there with wider rights, and it replaces a stale one in one step.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let nursery = Nursery::new(parent)?;
        let born = nursery.0.join("s");
        nursery.bind(&socket)?;
        let mode = match &stale {
            None => mode,
            Some(stale) => {
                // Rights are rights of an owner and a group, who are kept as far as the system lets us.
                let kept = chown(&born, Some(stale.uid()), Some(stale.gid()));
                drop(kept.or_else(|_| chown(&born, None, Some(stale.gid()))));
                stale.permissions().mode() & 0o777
            }
        };
        fs::set_permissions(&born, fs::Permissions::from_mode(mode))?;
        socket.listen(backlog)?;
        socket.set_nonblocking(true)?;
        let born_as = fs::symlink_metadata(&born)?;
        fs::rename(&born, path)?;
        let made = Made { path: path.to_owned(), device: born_as.dev(), inode: born_as.ino() };
        Ok(Self { socket, address: Address::Unix(path.to_owned()), _made: Some(made) })
    }

    fn inherit(fd: OwnedFd) -> Result<Self, BindError> {
        use std::os::fd::AsRawFd;
        let number = fd.as_raw_fd();
        let socket = Socket::from(fd);
        let wrong = || BindError::NotListening { fd: number };
        if !socket.is_listener().map_err(|_| wrong())? {
            return Err(wrong());
        }
        socket.set_nonblocking(true).map_err(|_| wrong())?;
        let local = socket.local_addr().map_err(|_| wrong())?;
        let address = match (local.as_socket(), local.as_pathname()) {
            (Some(address), _) => Address::Tcp(address),
            (None, path) => Address::Unix(path.unwrap_or(Path::new("")).to_owned()),
        };
        Ok(Self { socket, address, _made: None })
    }

    /// The same socket for another thread.
    pub(crate) fn share(&self) -> io::Result<Socket> {
        self.socket.try_clone()
    }
}

/// Whether nobody listens on the socket at `path`. Only a refusal says so: a full backlog is that of a live server,
/// and a socket we may not connect to is not ours to replace.
fn is_stale(path: &Path) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A blocking connect would wait for room in a full backlog.
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(false),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(true),
            io::ErrorKind::WouldBlock => Ok(false),
            _ => Err(error),
        },
    }
}

/// A directory with rights for its owner alone, removed with what is left in it.
struct Nursery(PathBuf);

impl Nursery {
    fn new(parent: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        for attempt in 0..100u32 {
            // Short: a socket's path may have about 100 bytes, and where `bind` knows no other way, that of the
            // socket in here has to fit as well.
            let path = parent.join(format!(".oxb{attempt:x}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Binds the socket to the file `s` in here.
    fn bind(&self, socket: &Socket) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Ok(folder) = fs::File::open(&self.0) {
            // The same place under a short name: the path in full may be too long although that asked for is not.
            let short = format!("/proc/self/fd/{}/s", std::os::fd::AsRawFd::as_raw_fd(&folder));
            if socket.bind(&SockAddr::unix(short)?).is_ok() {
                return Ok(());
            }
        }
        socket.bind(&SockAddr::unix(self.0.join("s"))?)
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        drop(fs::remove_file(self.0.join("s")));
        drop(fs::remove_dir(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("oxb-listener-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn r32_a_stale_socket_file_is_replaced_and_keeps_its_rights_and_a_live_one_is_not_stolen() {
        let path = folder("rights").join("s.sock");
        let open = || Listener::open(Place::Unix { path: path.clone(), mode: 0o600 }, 8);
        let first = open().unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(matches!(open(), Err(BindError::Bind { .. })), "in use");
        assert!(path.exists(), "the live one stays");
        drop(first);
        assert!(!path.exists(), "removed at the end");

        let stale = std::os::unix::net::UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o740)).unwrap();
        drop(stale);
        let second = open().unwrap();
        assert_eq!(mode(&path), 0o740);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");
        drop(second);
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        let path = folder("kind").join("notes.txt");
        fs::write(&path, "mine").unwrap();
        let refused = Listener::open(Place::Unix { path: path.clone(), mode: 0o600 }, 8);
        assert!(refused.unwrap_err().to_string().starts_with("bind "));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_path_may_be_as_long_as_an_address_holds_and_no_longer() {
        let parent = folder("long");
        let longest = 107 - parent.as_os_str().len() - 1;
        for (length, fits) in [(1, true), (longest, true), (longest + 1, false), (200, false)] {
            let path = parent.join("a".repeat(length));
            let opened = Listener::open(Place::Unix { path: path.clone(), mode: 0o600 }, 8);
            assert_eq!(opened.is_ok(), fits, "{length}: {opened:?}");
            assert_eq!(path.exists(), fits);
            assert!(!fits || std::os::unix::net::UnixStream::connect(&path).is_ok(), "a client can name it");
        }
        // The name is short, the folder as long as it may be.
        let deep = parent.join("d".repeat(longest - 2));
        fs::create_dir_all(&deep).unwrap();
        Listener::open(Place::Unix { path: deep.join("s"), mode: 0o600 }, 8).unwrap();
    }

    #[test]
    fn a_descriptor_that_does_not_listen_is_refused() {
        let file = fs::File::open("/dev/null").unwrap();
        assert!(matches!(
            Listener::open(Place::Inherited(file.into()), 8),
            Err(BindError::NotListening { .. })
        ));
    }
}
