//! Changes of the server's clock.

use distlock_testkit::{docker::SETTABLE_CLOCK, framing::Framing};

use crate::common::{
    cases::clocked::{Container, Kind, Place},
    clock_cases,
    mysql::{DATABASE, IMAGE, Mysql},
};

static KIND: Kind = Kind {
    around: IMAGE.around,
    framing: Framing::Mysql,
    forgets: true,
    place: Place::Container(Container {
        image: IMAGE,
        clock: &SETTABLE_CLOCK,
        options: &[DATABASE],
        arguments: &["--innodb-flush-log-at-trx-commit=0"],
        prepare: &[],
        shows: &[
            "mariadb",
            "--skip-ssl",
            "--user=root",
            "--password=root",
            "--execute=SELECT UNIX_TIMESTAMP()",
            "--skip-column-names",
        ],
    }),
};

clock_cases! { Mysql, &KIND }
