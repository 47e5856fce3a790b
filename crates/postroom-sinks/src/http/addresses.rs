//! Which addresses may be connected to: public ones, unless the configuration says otherwise.
//!
//! The check sits in the resolver of the client, so that the address which was looked at is the one
//! that is connected to, however the name is resolved the next time.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use ipnet::IpNet;
use postroom_core::store::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Finds the addresses of a host.
pub trait Lookup: fmt::Debug + Send + Sync + 'static {
    /// All addresses of this name.
    fn addresses(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Asks the operating system.
#[derive(Debug)]
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A resolver that gives out only addresses that may be connected to.
#[derive(Debug)]
pub(super) struct Guard {
    lookup: Arc<dyn Lookup>,
    rules: Arc<Rules>,
}

impl Guard {
    pub(super) fn new(lookup: Arc<dyn Lookup>, rules: Rules) -> Self {
        Self { lookup, rules: Arc::new(rules) }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup.addresses(name.as_str());
        let rules = Arc::clone(&self.rules);
        Box::pin(async move {
            let found = found.await.map_err(|error| format!("{}: {error}", name.as_str()))?;
            // One bad address spoils all: somebody tries something, or the name is set up wrong.
            for address in &found {
                rules.judge(*address).map_err(|why| format!("{}: {why}", name.as_str()))?;
            }
            let found = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

/// What may be connected to.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    allow: Vec<IpNet>,
    deny: Vec<IpNet>,
    only_public: bool,
}

impl Rules {
    pub(super) fn new(allow: &[IpNet], deny: &[IpNet]) -> Self {
        Self { allow: allow.to_vec(), deny: deny.to_vec(), only_public: true }
    }

    /// For what is behind a proxy.
    pub(super) fn anything() -> Self {
        Self { allow: Vec::new(), deny: Vec::new(), only_public: false }
    }

    /// Whether this address may be connected to; if not, why.
    pub(super) fn judge(&self, address: IpAddr) -> Result<(), String> {
        for meant in meanings(address) {
            if self.deny.iter().any(|range| range.contains(&meant)) {
                return Err(format!("{address} is in a range of deny"));
            }
            if let Some(kind) = kind(meant)
                && self.only_public
                && !self.is_opened(meant)
            {
                return Err(format!(
                    "{address} is not a public address ({kind}); allow can open its range"
                ));
            }
        }
        Ok(())
    }

    /// A wide range is meant for servers of one's own, and not for the credentials of the machine.
    fn is_opened(&self, address: IpAddr) -> bool {
        let gives_credentials = METADATA.contains(&address);
        let mut ranges = self.allow.iter().filter(|range| range.contains(&address));
        ranges.any(|range| !gives_credentials || range.prefix_len() == range.max_prefix_len())
    }
}

/// The address, and the IPv4 address that it stands for.
fn meanings(address: IpAddr) -> Vec<IpAddr> {
    let IpAddr::V6(v6) = address else { return vec![address] };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return vec![v4.into()];
    }
    let [a, b, c, .., g, h] = v6.segments();
    let v4 = |high: u16, low: u16| {
        IpAddr::from(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
    };
    match [a, b] {
        // NAT64 and 6to4.
        [0x64, 0xff9b] => vec![address, v4(g, h)],
        [0x2002, _] => vec![address, v4(b, c)],
        _ => vec![address],
    }
}

/// What an address is, if not public.
fn kind(address: IpAddr) -> Option<&'static str> {
    if METADATA.contains(&address) {
        return Some("credentials of a cloud");
    }
    let special = SPECIAL.iter().find(|(range, _)| range.contains(&address));
    match (special, address) {
        (Some((_, kind)), _) => Some(kind),
        // All public IPv6 addresses are in 2000::/3, but for NAT64.
        (None, IpAddr::V6(v6)) if v6.segments()[0] >> 13 != 1 && !is_nat64(v6) => Some("reserved"),
        (None, _) => None,
    }
}

fn is_nat64(address: Ipv6Addr) -> bool {
    address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0]
}

/// Where clouds tell a machine its credentials. One is a public address, some are link-local.
static METADATA: LazyLock<Vec<IpAddr>> = LazyLock::new(|| {
    let addresses = [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    ];
    addresses.iter().map(|text| text.parse().expect("an address")).collect()
});

/// The registries of special addresses of the IANA.
static SPECIAL: LazyLock<Vec<(IpNet, &str)>> = LazyLock::new(|| {
    let ranges = [
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a provider"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "this host"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
    ];
    ranges.map(|(range, kind)| (range.parse().expect("a range"), kind)).to_vec()
});

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn nets(list: &[&str]) -> Vec<IpNet> {
        list.iter().map(|text| text.parse().expect("a range")).collect()
    }

    #[test]
    fn x06_addresses_that_are_not_public_are_refused() {
        let rules = Rules::new(&[], &[]);
        let bad = "
            0.0.0.0 0.1.2.3 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254
            169.254.1.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1
            192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1
            239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16 100.100.100.200 :: ::1
            ::7f00:1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::10.0.0.1 64:ff9b::7f00:1
            64:ff9b:1::1 2002:a00:1:: 2002:7f00:1::1 2001::1 2001:2::1 2001:10::1 2001:db8::1
            3fff::1 100::1 5f00::1 fc00::1 fd12:3456::1 fd00:ec2::254 fe80::1 febf::1 fec0::1
            ff02::1 4000::1 e000::1 ::ffff:0:10.0.0.1
        ";
        for address in bad.split_whitespace() {
            rules.judge(ip(address)).expect_err(address);
        }
        let good = "
            1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.0.0.1 128.0.0.1
            169.253.0.1 169.255.0.1 172.15.0.1 172.32.0.1 192.167.0.1 192.169.0.1
            223.255.255.255 2606:4700::1111 2a00::1 ::ffff:1.1.1.1 64:ff9b::1.1.1.1
            2002:101:101::1
        ";
        for address in good.split_whitespace() {
            assert_eq!(rules.judge(ip(address)), Ok(()), "{address}");
        }
    }

    #[test]
    fn sec_4_allow_opens_a_range_and_deny_goes_before_it() {
        let rules =
            Rules::new(&nets(&["10.0.0.0/8", "fd00::/8"]), &nets(&["10.9.0.0/16", "1.0.0.0/8"]));
        for address in ["10.1.2.3", "fd01::1", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2.2.2.2"] {
            assert_eq!(rules.judge(ip(address)), Ok(()), "{address}");
        }
        for address in ["10.9.0.1", "1.1.1.1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "127.0.0.1"] {
            rules.judge(ip(address)).expect_err(address);
        }
    }

    #[test]
    fn x06_a_wide_range_does_not_open_the_credentials_of_the_machine() {
        let wide = Rules::new(&nets(&["0.0.0.0/0", "::/0"]), &[]);
        assert_eq!(wide.judge(ip("169.254.1.1")), Ok(()));
        for address in ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254"] {
            wide.judge(ip(address)).expect_err(address);
        }
        let exact = Rules::new(&nets(&["169.254.169.254/32"]), &[]);
        assert_eq!(exact.judge(ip("169.254.169.254")), Ok(()));
    }
}
