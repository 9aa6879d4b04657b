//! A web server with a thread for each of a few workers, which share a cache of what a slow
//! database says: `cargo run --release --example web_workers`.
//!
//! It asks itself a thousand times for ten users. The database is asked once for each of them.

use atoll::{Cache, Pool, PoolOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A database that takes its time.
fn name_of(user: &str) -> String {
    std::thread::sleep(Duration::from_millis(20));
    format!("user number {user}")
}

/// Answers `GET /USER`.
fn answer(stream: TcpStream, cache: &Cache) -> Result<(), Box<dyn std::error::Error>> {
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let user = line.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
    let name = cache.get_with(format!("user:{user}").as_bytes(), || name_of(&user).into_bytes())?;
    (&stream).write_all(format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", name.len()).as_bytes())?;
    (&stream).write_all(&name)?;
    Ok(())
}

fn ask(address: SocketAddr, user: u32) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET /{user} HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::anonymous(&PoolOptions::default().capacity_bytes(16 << 20))?;
    let cache = Cache::builder().time_to_live(Duration::from_secs(60)).build(&pool)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    for _ in 0..8 {
        let (listener, cache) = (listener.try_clone()?, cache.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = answer(stream, &cache) {
                    eprintln!("a peer was not answered: {error}");
                }
            }
        });
    }
    std::thread::scope(|scope| {
        for peer in 0..10 {
            scope.spawn(move || {
                for question in 0..100 {
                    let user = (peer + question) % 10;
                    assert_eq!(ask(address, user).expect("it answers"), format!("user number {user}"));
                }
            });
        }
    });
    let statistics = cache.statistics();
    println!("1000 questions, {} hits, the database was asked {} times", statistics.pool.hits, statistics.loads);
    Ok(())
}
