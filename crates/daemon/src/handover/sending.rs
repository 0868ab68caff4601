//! The source's side: a connection for each question and each context.
//!
//! No connection is kept while the memory is copied, which may take hours: a firewall or a restart of the other daemon
//! could end it. It is opened when it is needed, at the price of two round trips.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use vrdma_api::{ArrivedContext, Destination, Name};
use vrdma_handover::{Answer, Call, PIECE_BYTES_MAX, Request};
use vrdma_uplink::Keys;

use super::frames::{self, Sealed};

/// How long a host may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Whether the daemon there expects the adapter's context. The error is a sentence.
pub(crate) async fn reach(keys: &Keys, adapter: &Name, to: Destination) -> Result<(), String> {
    let request = request(adapter, to, &[]);
    let asked = open(keys, to.address, &request).await;
    asked.map(drop).map_err(|why| not_taken(to.address, &why))
}

/// Brings the adapter's context there. The error is a sentence.
pub(crate) async fn deliver(
    keys: &Keys,
    adapter: &Name,
    to: Destination,
    context: &[u8],
) -> Result<ArrivedContext, String> {
    let request = request(adapter, to, context);
    let delivered = async {
        let mut sealed = open(keys, to.address, &request).await?;
        send(&mut sealed, context).await
    };
    let arrived = delivered.await;
    arrived.map_err(|why| not_taken(to.address, &why))
}

fn request(adapter: &Name, to: Destination, context: &[u8]) -> Request {
    Request {
        adapter: adapter.clone(),
        ticket: to.ticket,
        bytes: context.len() as u64,
    }
}

fn not_taken(address: SocketAddr, why: &str) -> String {
    format!("the daemon at {address} does not take the adapter's context: {why}")
}

fn interrupted(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => {
            "it does not answer; look whether a firewall is in between".to_owned()
        }
        io::ErrorKind::ConnectionRefused => {
            "nobody listens there; look whether it runs, and with [migration]".to_owned()
        }
        io::ErrorKind::UnexpectedEof => "it has closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

async fn connect(keys: &Keys, address: SocketAddr) -> Result<Sealed, String> {
    let connected = timeout(CONNECT_LIMIT, TcpStream::connect(address)).await;
    let mut stream = connected
        .unwrap_or_else(|elapsed| Err(elapsed.into()))
        .map_err(interrupted)?;
    // The messages are small and wait for answers.
    stream.set_nodelay(true).map_err(interrupted)?;
    let (call, hello) = Call::begin(keys).ok_or("the system has no random numbers")?;
    let answer = async {
        frames::write(&mut stream, &hello).await?;
        frames::read_hello(&mut stream).await
    };
    let answer = answer.await.map_err(interrupted)?;
    let session = call.take_answer(&answer).map_err(|why| why.to_string())?;
    Ok(Sealed { stream, session })
}

/// Opens a connection, and checks that its other end expects the context.
async fn open(keys: &Keys, address: SocketAddr, request: &Request) -> Result<Sealed, String> {
    let mut sealed = connect(keys, address).await?;
    let answer = async {
        sealed.say(&request.encode()).await?;
        sealed.hear().await
    };
    match decode(&answer.await.map_err(interrupted)?)? {
        Answer::Expected => Ok(sealed),
        Answer::Refused(sentence) => Err(sentence),
        Answer::Arrived(_) => Err("it says that what was not sent has arrived".to_owned()),
    }
}

async fn send(sealed: &mut Sealed, context: &[u8]) -> Result<ArrivedContext, String> {
    for piece in context.chunks(PIECE_BYTES_MAX) {
        sealed.say(piece).await.map_err(interrupted)?;
    }
    match decode(&sealed.hear().await.map_err(interrupted)?)? {
        Answer::Arrived(arrived) => Ok(arrived),
        Answer::Refused(sentence) => Err(sentence),
        Answer::Expected => Err("it does not say whether it has arrived".to_owned()),
    }
}

fn decode(said: &[u8]) -> Result<Answer, String> {
    Answer::decode(said).map_err(|broken| broken.to_string())
}
