//! A TCP proxy on loopback that can fail as networks do: it cuts, it stalls, it forgets connections without telling
//! anybody, and it turns new ones away. It does not look at what it carries.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

#[derive(Clone, Copy)]
struct Orders {
    /// Nothing is carried, in either direction; what has come is held.
    stalled: bool,
    /// New connections are closed at once.
    closed: bool,
    /// A connection ends when it has carried so many bytes in one direction, in the middle of whatever that is.
    torn_after: Option<usize>,
    /// Each connection that is older than the last cut, or the last forgetting, is told by these numbers.
    cuts: u64,
    forgettings: u64,
}

/// Listens on a free port of loopback and carries each connection to one other port.
pub(crate) struct Proxy {
    port: u16,
    orders: watch::Sender<Orders>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (orders, ordered) =
            watch::channel(Orders { stalled: false, closed: false, torn_after: None, cuts: 0, forgettings: 0 });
        let task = tokio::spawn(accept(listener, target, ordered));
        Self { port, orders, task }
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections there are. New ones are as welcome as before.
    pub(crate) fn cut(&self) {
        self.orders.send_modify(|orders| orders.cuts += 1);
    }

    /// Carries nothing until it is told otherwise; connections stay open, and new ones are taken.
    pub(crate) fn stall(&self, stalled: bool) {
        self.orders.send_modify(|orders| orders.stalled = stalled);
    }

    /// Ends all connections, and each new one as soon as it is made, until it is told otherwise.
    pub(crate) fn close(&self, closed: bool) {
        self.orders.send_modify(|orders| {
            orders.closed = closed;
            orders.cuts += 1;
        });
    }

    /// Each connection ends after so many bytes of either direction, until it is told otherwise.
    pub(crate) fn tear(&self, after: Option<usize>) {
        self.orders.send_modify(|orders| orders.torn_after = after);
    }

    /// All connections there are become half open: the target's side ends, the other is told nothing, until the next
    /// cut. New ones work.
    pub(crate) fn forget(&self) {
        self.orders.send_modify(|orders| orders.forgettings += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: u16, ordered: watch::Receiver<Orders>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                if !ordered.borrow().closed {
                    connections.spawn(carry(client, target, ordered.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn carry(mut client: TcpStream, target: u16, mut ordered: watch::Receiver<Orders>) {
    let born = *ordered.borrow();
    let mut cuts = ordered.clone();
    let mut forgettings = ordered.clone();
    let cut = cuts.wait_for(|orders| orders.cuts != born.cuts);
    let forgotten = forgettings.wait_for(|orders| orders.forgettings != born.forgettings);
    tokio::pin!(cut);
    let carried = async {
        flowing(&mut ordered).await;
        let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (client_reads, client_writes) = client.split();
        let (server_reads, server_writes) = server.split();
        let _ = tokio::try_join!(
            pump(client_reads, server_writes, ordered.clone()),
            pump(server_reads, client_writes, ordered.clone())
        );
    };
    let half_open = tokio::select! {
        () = carried => false,
        _ = &mut cut => false,
        _ = forgotten => true,
    };
    if half_open {
        // The server's side has gone with `carried`; the client's stays, and nobody reads it.
        let _ = cut.await;
    }
    drop(client);
}

/// The connection was torn: both directions end at once.
struct Torn;

/// Carries one direction; when it ends, the other side is told so.
async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut ordered: watch::Receiver<Orders>,
) -> Result<(), Torn> {
    let (mut buffer, mut carried) = (vec![0; 16 << 10], 0);
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        flowing(&mut ordered).await;
        let torn_after = ordered.borrow().torn_after.filter(|limit| carried + read > *limit);
        let part = torn_after.map_or(read, |limit| limit.saturating_sub(carried));
        let written = to.write_all(&buffer[..part]).await;
        if torn_after.is_some() {
            return Err(Torn);
        }
        if read == 0 || written.is_err() {
            let _ = to.shutdown().await;
            return Ok(());
        }
        carried += read;
    }
}

/// Waits while nothing is carried.
async fn flowing(ordered: &mut watch::Receiver<Orders>) {
    // The sender goes only with the proxy, and with it this task.
    let _ = ordered.wait_for(|orders| !orders.stalled).await;
}
