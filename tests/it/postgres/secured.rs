//! Passwords and certificates.

use distlock_testkit::servers::postgres_url;

use crate::common::{cases_of, postgres::Postgres};

cases_of! { Postgres, &postgres_url(),
    encrypted::a_lock_is_held_by_tls,
    encrypted::what_is_wrong_with_a_certificate_is_told,
    encrypted::what_cannot_be_checked_is_refused_before_anything_is_sent,
    encrypted::who_is_not_let_in_is_told,
}
