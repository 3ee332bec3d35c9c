//! The user and the password of a URL.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::backend::{credentials::Credentials, secret::Secret, source::Origin};

/// Parses `user:password`, each percent-escaped, or a user alone.
pub(super) fn login(text: &str) -> Result<(String, Option<Secret>), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+;=%".contains(c);
    let plain = |text: &str| {
        let decoded = text.chars().all(fits).then(|| percent_decode_str(text).decode_utf8().ok());
        decoded.flatten().map(Cow::into_owned).ok_or_else(|| {
            "in the user and the password, percent-escape the UTF-8 bytes of every character \
             except ASCII letters and digits"
                .to_owned()
        })
    };
    let (user, password) =
        text.split_once(':').map_or((text, None), |(user, password)| (user, Some(password)));
    Ok((plain(user)?, password.map(plain).transpose()?.map(Secret::new)))
}

pub(super) fn credentials(
    login: Option<(String, Option<Secret>)>,
    file: Option<String>,
) -> Result<Option<Origin<Credentials>>, String> {
    Ok(match (login, file) {
        (None, None) => None,
        (Some((user, Some(password))), None) => Some(Origin::Fixed(Credentials { user, password })),
        (Some((user, None)), Some(file)) => {
            Some(Origin::changing(move || Credentials::read(&user, file.as_ref())))
        }
        (Some((_, None)), None) => {
            return Err(
                "the part before the `@` must be user:password, or only the user, with the option \
                 password_file; for a user without a password, write user:@"
                    .into(),
            );
        }
        (Some((_, Some(_))), Some(_)) => {
            return Err("the URL has both a password and a password_file".into());
        }
        (None, Some(_)) => {
            return Err("password_file needs a user: write user@ before the hosts".into());
        }
    })
}
