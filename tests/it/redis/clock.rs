//! Changes of the server's clock.

use distlock_testkit::{docker::CLOCK_OF_REDIS, framing::Framing};

use crate::common::{
    cases::clocked::{Container, Kind, Place},
    clock_cases,
    redis::{IMAGE, META, Redis, SETTLE},
};

static KIND: Kind = Kind {
    around: IMAGE.around,
    framing: Framing::Resp,
    forgets: false,
    place: Place::Container(Container {
        image: IMAGE,
        clock: &CLOCK_OF_REDIS,
        options: &[],
        arguments: &[],
        prepare: &[
            "sh",
            "-c",
            "redis-cli --user default --pass root --no-auth-warning EVAL \"$@\" || :",
            "-",
            SETTLE,
            "1",
            META,
        ],
        shows: &["redis-cli", "--user", "default", "--pass", "root", "--no-auth-warning", "TIME"],
    }),
};

clock_cases! { Redis, &KIND }
