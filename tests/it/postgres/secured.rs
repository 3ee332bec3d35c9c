//! Passwords and certificates.

use distlock_testkit::servers::postgres_url;

use crate::common::{cases_of, postgres::Postgres};

cases_of! { Postgres, beside_others, &postgres_url(),
    encrypted::a_lock_is_held_by_tls,
    encrypted::certificate_errors_name_the_cause,
    encrypted::certificates_are_checked_by_the_roots_of_the_system,
    encrypted::a_password_in_plain_text_is_refused_before_it_is_sent,
    encrypted::denied_logins_are_reported_without_credentials,
}
