//! What stands behind the hosts of a URL: a database, a service, a file.

use percent_encoding::percent_decode_str;

/// The path of a file, percent-escaped where it has to be.
pub(super) fn file(path: &str) -> Result<String, String> {
    if path.contains(['@', ':', '#']) && path != ":memory:" {
        return Err(
            "sqlite:// has neither users nor a network: an `@`, `:` or `#` of the path has \
                    to be written as %40, %3A or %23"
                .into(),
        );
    }
    let path = percent_decode_str(path).decode_utf8().map_err(|_| "the path is not UTF-8")?;
    match &*path {
        "" => Err("write sqlite:///path/of/a/file or sqlite://relative/path".into()),
        ":memory:" => Err("for a store within this process write memory://name".into()),
        path if path.ends_with('/') => Err("the path is a directory's".into()),
        path if path.contains('\0') => Err("the path has a NUL in it".into()),
        path => Ok(path.to_owned()),
    }
}

/// The name of a database, which may be left out, and the path behind it.
pub(super) fn database(path: &str) -> Result<(Option<String>, &str), String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (name, rest) = path.find('/').map_or((path, ""), |slash| path.split_at(slash));
    let name = percent_decode_str(name).decode_utf8();
    let name = name.map_err(|_| "the database's name is not UTF-8".to_owned())?;
    if name.contains('\0') {
        return Err("the database's name has a NUL in it".into());
    }
    Ok((Some(name.into_owned()).filter(|name| !name.is_empty()), rest))
}

/// The name by which sentinels know a primary and its replicas.
pub(super) fn service(path: &str) -> Result<(Option<String>, &str), String> {
    let (name, rest) = database(path)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match name {
        Some(name) if name.chars().all(fits) => Ok((Some(name), rest)),
        _ => Err("behind the sentinels stands the name that they know the primary by, as in \
                  redis+sentinel://host/mymaster"
            .into()),
    }
}

/// A database that has a number, 0 unless there is one.
pub(super) fn numbered(
    (database, path): (Option<String>, &str),
) -> Result<(Option<String>, &str), String> {
    let digits = |text: &String| text.bytes().all(|byte| byte.is_ascii_digit());
    match database {
        Some(text) if !digits(&text) || text.parse::<u16>().is_err() => Err(
            "the first part of the path is a database's number, as in redis://host/0/app/locks; \
                 the namespace comes after it"
                .into(),
        ),
        database => Ok((database, path)),
    }
}
