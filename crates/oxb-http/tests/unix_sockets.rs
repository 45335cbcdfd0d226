//! Unix sockets: rights, stale files, live servers, and what is left at the end (R32).

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oxb_http::options::{Place, ServerOptions};
use oxb_http::server::Server;
use support::{Client, DEADLINE, Site};

/// A directory of its own for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("oxb-unix-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("app.sock")
    }

    fn entries(&self) -> usize {
        fs::read_dir(&self.0).expect("it is there").count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn place(path: &Path, mode: u32) -> Place {
    Place::Unix { path: path.to_owned(), mode }
}

fn connect(path: &Path) -> Client<UnixStream> {
    let stream = UnixStream::connect(path).expect("the server listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("not zero");
    Client::new(stream)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("the socket is there").permissions().mode() & 0o777
}

/// A socket file that nobody listens on.
fn stale(path: &Path, mode: u32) {
    drop(UnixListener::bind(path).expect("the place is free"));
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn r32_a_new_socket_has_the_rights_asked_for_and_is_removed_at_the_end() {
    let folder = Folder::new("new");
    for asked in [0o600, 0o660, 0o666, 0o777] {
        let site = Site::start_at(place(&folder.socket(), asked), ServerOptions::default());
        assert_eq!(mode(&folder.socket()), asked);
        let mut client = connect(&folder.socket());
        assert_eq!(client.get("/hello").text(), "/hello");
        assert_eq!(site.running.address().to_string(), format!("unix:{}", folder.socket().display()));
        drop(client);
        site.finish();
        assert_eq!(folder.entries(), 0, "nothing is left");
    }
}

#[test]
fn r32_the_rights_of_a_stale_socket_are_kept_by_one_server_after_the_other() {
    let folder = Folder::new("kept");
    stale(&folder.socket(), 0o760);
    let owner =
        fs::symlink_metadata(folder.socket()).map(|found| (found.uid(), found.gid())).expect("it is there");
    // A server that ends without removing its file, as a killed one does: it is kept aside and put back.
    for _ in 0..2 {
        let site = Site::start_at(place(&folder.socket(), 0o600), ServerOptions::default());
        assert_eq!(mode(&folder.socket()), 0o760);
        let now = fs::symlink_metadata(folder.socket()).expect("it is there");
        assert_eq!((now.uid(), now.gid()), owner);
        assert_eq!(connect(&folder.socket()).get("/hello").status, 200);
        fs::rename(folder.socket(), folder.0.join("aside")).expect("it is ours");
        drop(site);
        fs::rename(folder.0.join("aside"), folder.socket()).expect("it is ours");
    }
    assert_eq!(folder.entries(), 1);
}

#[test]
fn r32_a_live_socket_is_not_stolen_not_even_one_whose_backlog_is_full() {
    let folder = Folder::new("live");
    let refused = || {
        let error =
            Server::bind(place(&folder.socket(), 0o600), ServerOptions::default()).expect_err("in use");
        assert!(error.to_string().starts_with("bind "), "{error}");
    };
    let site = Site::start_at(place(&folder.socket(), 0o600), ServerOptions::default());
    refused();
    assert_eq!(connect(&folder.socket()).get("/hello").status, 200);
    drop(site);

    // Bound and never accepting.
    let socket =
        socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a descriptor");
    socket.bind(&socket2::SockAddr::unix(folder.socket()).expect("short")).expect("free");
    socket.listen(0).expect("bound");
    let mut waiting = Vec::new();
    loop {
        let client =
            socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a descriptor");
        client.set_nonblocking(true).expect("a socket");
        if client.connect(&socket2::SockAddr::unix(folder.socket()).expect("short")).is_err() {
            break;
        }
        waiting.push(client);
    }
    refused();
    assert!(folder.socket().exists());
}

#[test]
fn r32_a_file_of_another_kind_is_left_alone() {
    let folder = Folder::new("kind");
    fs::write(folder.socket(), "mine").expect("writable");
    assert!(Server::bind(place(&folder.socket(), 0o600), ServerOptions::default()).is_err());
    assert_eq!(fs::read_to_string(folder.socket()).expect("still there"), "mine");
}

#[test]
fn r32_a_socket_is_never_wider_than_asked_for_not_even_for_a_moment() {
    let folder = Folder::new("moment");
    let is_over = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (path, is_over) = (folder.socket(), Arc::clone(&is_over));
        std::thread::spawn(move || {
            let mut seen = 0;
            while !is_over.load(Ordering::SeqCst) {
                if let Ok(found) = fs::symlink_metadata(&path) {
                    assert_eq!(found.permissions().mode() & 0o777, 0o600);
                    seen += 1;
                }
            }
            seen
        })
    };
    for _ in 0..300 {
        drop(Server::bind(place(&folder.socket(), 0o600), ServerOptions::default()).expect("free"));
    }
    is_over.store(true, Ordering::SeqCst);
    assert!(watcher.join().expect("never wider") > 0);
}

#[test]
fn r32_a_path_as_long_as_the_system_takes_works() {
    let folder = Folder::new("long");
    let room = 107 - folder.0.as_os_str().len() - "//app.sock".len();
    let deep = folder.0.join("d".repeat(room));
    fs::create_dir(&deep).expect("writable");
    let path = deep.join("app.sock");
    let site = Site::start_at(place(&path, 0o600), ServerOptions::default());
    assert_eq!(connect(&path).get("/hello").status, 200);
    drop(site);
    assert!(!path.exists());
}

#[test]
fn an_inherited_socket_is_served_and_its_file_left_to_its_owner() {
    let folder = Folder::new("inherited");
    let listener = UnixListener::bind(folder.socket()).expect("free");
    let own = listener.try_clone().expect("a descriptor is free");
    let site = Site::start_at(Place::Inherited(own.into()), ServerOptions::default());
    let mut client = connect(&folder.socket());
    assert_eq!(client.get("/hello").status, 200);
    drop(client);
    site.finish();
    assert!(folder.socket().exists());

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let site = Site::start_at(Place::Inherited(listener.into()), ServerOptions::default());
    assert_eq!(site.connect().get("/hello").status, 200);
}
