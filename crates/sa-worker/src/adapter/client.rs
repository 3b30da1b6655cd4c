//! The way out: one HTTP client a provider.

use std::time::Duration;

use reqwest::{Client, Url, redirect, retry};

const KEEPALIVE: Duration = Duration::from_secs(60);
const POOL_IDLE: Duration = Duration::from_secs(90);

/// A client for this address: no redirects (they would carry the key elsewhere), no Referer, no repetition of its own
/// (the queue repeats). A proxy named in the environment is used, but never for this host itself.
pub(super) fn client(address: &Url, connect_limit: Duration) -> reqwest::Result<Client> {
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(retry::never())
        .connect_timeout(connect_limit)
        .tcp_keepalive(KEEPALIVE)
        .pool_idle_timeout(POOL_IDLE)
        .user_agent(concat!("asterion/", env!("CARGO_PKG_VERSION")));
    if is_loopback(address) {
        builder = builder.no_proxy();
    }
    builder.build()
}

fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_in_all_its_spellings() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://localhost/v1", true),
            ("http://[::1]:1/v1", true),
            ("https://api.openai.com/v1", false),
            ("http://10.0.0.1/v1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
