//! Changes of the server's clock.

use distlock_testkit::{docker::SETTABLE_CLOCK, framing::Framing};

use crate::common::{
    cases::clocked::{Container, Kind, Place},
    clock_cases,
    postgres::{IMAGE, Postgres},
};

static KIND: Kind = Kind {
    around: IMAGE.around,
    framing: Framing::Postgres,
    forgets: true,
    place: Place::Container(Container {
        image: IMAGE,
        clock: &SETTABLE_CLOCK,
        options: &[],
        arguments: &["-cfsync=off"],
        prepare: &[],
        shows: &[
            "psql",
            "--username=postgres",
            "--command=SELECT extract(epoch FROM now())::bigint",
            "--tuples-only",
        ],
    }),
};

clock_cases! { Postgres, &KIND }
