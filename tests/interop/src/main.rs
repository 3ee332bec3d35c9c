//! Interop: distlock and other clients contend for the same locks, and a checker verifies all of
//! their messages. `docker/interop` runs it.

mod bridge;
mod elections;
mod fleet;
mod revoking;
mod scenarios;
mod store;
mod worker;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["worker", client, url, path, ttl, value] => {
            worker::run(client, url, path, ttl, value).await.map(|()| 0)
        }
        ["run", container, url, only] => scenarios::run_all(container, url, only).await,
        _ => Err("usage: interop run CONTAINER URL [PART-OF-A-NAME]; see docker/interop -h".into()),
    };
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("interop: {error}");
            ExitCode::from(2)
        }
    }
}
