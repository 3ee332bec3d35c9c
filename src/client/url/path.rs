//! The path of a URL: a database, a service or a file.

use percent_encoding::percent_decode_str;

/// Parses the percent-escaped path of a file.
pub(super) fn file(path: &str) -> Result<String, String> {
    if path.contains(['@', ':', '#']) && path != ":memory:" {
        return Err(
            "a sqlite:// URL has neither a user nor a host: write an `@`, `:` or `#` in the path \
             as %40, %3A or %23"
                .into(),
        );
    }
    let path = percent_decode_str(path).decode_utf8().map_err(|_| "the path is not UTF-8")?;
    match &*path {
        "" => {
            Err("it has no path: write sqlite:///path/to/a/file or sqlite://relative/path".into())
        }
        ":memory:" => Err("for a store within this process, use memory://name".into()),
        path if path.ends_with('/') => Err("the path ends with `/`: name a file".into()),
        path if path.contains('\0') => Err("the path contains a NUL".into()),
        path => Ok(path.to_owned()),
    }
}

/// Splits a path into the name of a database, which is optional, and the rest.
pub(super) fn database(path: &str) -> Result<(Option<String>, &str), String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (name, rest) = path.find('/').map_or((path, ""), |slash| path.split_at(slash));
    let name = percent_decode_str(name).decode_utf8();
    let name = name.map_err(|_| "the database's name is not UTF-8".to_owned())?;
    if name.contains('\0') {
        return Err("the database's name contains a NUL".into());
    }
    Ok((Some(name.into_owned()).filter(|name| !name.is_empty()), rest))
}

/// Splits a path into the name by which sentinels know a primary, and the rest.
pub(super) fn service(path: &str) -> Result<(Option<String>, &str), String> {
    let (name, rest) = database(path)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match name {
        Some(name) if name.chars().all(fits) => Ok((Some(name), rest)),
        _ => {
            Err("the path must begin with the name that the sentinels use for the primary, as in \
                 redis+sentinel://host/mymaster"
                .into())
        }
    }
}

/// Checks that the database, if there is one, is a number.
pub(super) fn numbered(
    (database, path): (Option<String>, &str),
) -> Result<(Option<String>, &str), String> {
    let digits = |text: &String| text.bytes().all(|byte| byte.is_ascii_digit());
    match database {
        Some(text) if !digits(&text) || text.parse::<u16>().is_err() => {
            Err("the first part of the path must be a database number, as in \
             redis://host/0/app/locks; the namespace follows it"
                .into())
        }
        database => Ok((database, path)),
    }
}
