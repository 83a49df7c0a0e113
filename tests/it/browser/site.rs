//! The server of another page, which may be anybody's.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

const PAGE: &str = "<!doctype html><title>a page</title><body><script src=\"/attack.js\"></script>";
const SCRIPT: &str = include_str!("attack.js");
/// What this server shows to the pages of all origins.
pub const SHOWN_TO_ALL: &str = "shown to all";

type Heard = Arc<Mutex<Vec<String>>>;

/// A server that listens.
#[derive(Debug)]
pub struct Site {
    pub addr: SocketAddr,
    heard: Heard,
    serving: JoinHandle<()>,
}

impl Site {
    /// One on any port.
    pub async fn start() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// One at this address.
    pub async fn at(addr: SocketAddr) -> Self {
        let listener = TcpListener::bind(addr).await.expect("the port is free");
        let (addr, heard) = (listener.local_addr().expect("bound"), Heard::default());
        let serving = tokio::spawn(serve(listener, heard.clone()));
        Self { addr, heard, serving }
    }

    /// The heads of the requests so far.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends, with all its connections. The address is free then.
    pub async fn stop(self) {
        self.serving.abort();
        let ended = self.serving.await;
        assert!(ended.is_err_and(|why| why.is_cancelled()), "it served until now");
    }
}

async fn serve(listener: TcpListener, heard: Heard) {
    // They end with this task.
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(answer(socket, heard.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Answers one request.
async fn answer(socket: TcpStream, heard: Heard) {
    let mut socket = BufReader::new(socket);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(told) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = told.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    if socket.read_exact(&mut body).await.is_err() {
        return;
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    heard.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    let _ = socket.get_mut().write_all(response(&path).as_bytes()).await;
    let _ = socket.get_mut().shutdown().await;
}

fn response(path: &str) -> String {
    let (status, header, body) = match path {
        "/" => ("200 OK", "Content-Type: text/html".to_owned(), PAGE),
        "/attack.js" => ("200 OK", "Content-Type: text/javascript".to_owned(), SCRIPT),
        "/open" => ("200 OK", "Access-Control-Allow-Origin: *".to_owned(), SHOWN_TO_ALL),
        _ => match path.strip_prefix("/to?") {
            Some(url) => ("307 Temporary Redirect", format!("Location: {url}"), ""),
            None => ("404 Not Found", "Content-Type: text/plain".to_owned(), "none"),
        },
    };
    format!(
        "HTTP/1.1 {status}\r\n{header}\r\nCache-Control: no-store\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
