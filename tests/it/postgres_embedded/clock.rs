//! Changes of the server's clock.

use std::net::SocketAddr;

use async_trait::async_trait;
use distlock_testkit::framing::Framing;

use super::place::{self, Server};
use crate::common::{
    cases::clocked::{self, Kind, Place},
    clock_cases,
    postgres::{Embedded, IMAGE},
};

#[async_trait]
impl clocked::Model for Server {
    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn set_clock(&self, seconds: i64) {
        self.change(move |server| {
            server.set_clock(seconds);
            Ok(())
        })
        .await;
    }
}

static KIND: Kind = Kind {
    around: IMAGE.around,
    framing: Framing::Postgres,
    forgets: true,
    place: Place::Process(|| {
        Box::pin(async { Box::new(place::server().await) as Box<dyn clocked::Model> })
    }),
};

clock_cases! { Embedded, &KIND }
