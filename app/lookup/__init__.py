"""The sources of the member list: a file, an address server or a host name; and the addresses of members' names."""
