//! Changes of the server's clock.

use distlock_testkit::{docker::SETTABLE_CLOCK, framing::Framing};

use crate::common::{
    cases::clocked::Kind,
    clock_cases,
    postgres::{IMAGE, Postgres},
};

static KIND: Kind = Kind {
    image: IMAGE,
    clock: &SETTABLE_CLOCK,
    options: &[],
    arguments: &["-cfsync=off"],
    framing: Framing::Postgres,
    forgets: true,
    prepare: &[],
    shows: &[
        "psql",
        "--username=postgres",
        "--command=SELECT extract(epoch FROM now())::bigint",
        "--tuples-only",
    ],
};

clock_cases! { Postgres, &KIND }
