//! Changes of the clock of a model.

use std::net::SocketAddr;

use async_trait::async_trait;
use distlock_testkit::framing::Framing;

use super::own::Server;
use crate::common::{
    cases::clocked::{self, Kind, Place},
    clock_cases,
    redis::{IMAGE, Model},
};

#[async_trait]
impl clocked::Model for Server {
    fn address(&self) -> SocketAddr {
        self.address
    }

    async fn set_clock(&self, seconds: i64) {
        self.change(move |model| model.set_clock(seconds * 1_000_000)).await;
    }
}

static KIND: Kind = Kind {
    around: IMAGE.around,
    framing: Framing::Resp,
    forgets: false,
    place: Place::Process(|| {
        Box::pin(async { Box::new(Server::start().await) as Box<dyn clocked::Model> })
    }),
};

clock_cases! { Model, &KIND }
