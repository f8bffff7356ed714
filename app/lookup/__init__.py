"""Where the member list comes from: a file, an address server or a host name; and the addresses of members' names."""
