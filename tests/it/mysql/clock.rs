//! Changes of the server's clock.

use distlock_testkit::{docker::SETTABLE_CLOCK, framing::Framing};

use crate::common::{
    cases::clocked::Kind,
    clock_cases,
    mysql::{DATABASE, IMAGE, Mysql},
};

static KIND: Kind = Kind {
    image: IMAGE,
    clock: &SETTABLE_CLOCK,
    options: &[DATABASE],
    arguments: &["--innodb-flush-log-at-trx-commit=0"],
    framing: Framing::Mysql,
    forgets: true,
    prepare: &[],
    shows: &[
        "mariadb",
        "--skip-ssl",
        "--user=root",
        "--password=root",
        "--execute=SELECT UNIX_TIMESTAMP()",
        "--skip-column-names",
    ],
};

clock_cases! { Mysql, &KIND }
