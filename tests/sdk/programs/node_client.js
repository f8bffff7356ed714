// Does with the package nacos what the lines on its input say; program.py has the shape of all lines.
'use strict';

const readline = require('readline');
const { NacosNamingClient } = require('nacos');

const GROUP = 'DEFAULT_GROUP';
const silent = () => {};
const logger = { debug: silent, info: silent, warn: console.error, error: console.error };
const clients = new Map();

const put = value => process.stdout.write(JSON.stringify(value) + '\n');

function instanceOf({ ip, port, cluster, weight, metadata }) {
  return { ip, port, clusterName: cluster, weight, metadata };
}

const ops = {
  async open(name, { servers, namespace = 'public', username, password }) {
    const ssl = servers[0].startsWith('https://');
    const serverList = servers.map(server => server.replace('https://', ''));
    const client = new NacosNamingClient({ logger, serverList, namespace, ssl, username, password });
    // A poll that fails is one; without a listener it would end the process.
    client._hostReactor.on('error', error => logger.error(error));
    await client.ready();
    clients.set(name, client);
    return true;
  },

  async register(name, fields) {
    await clients.get(name).registerInstance(fields.service, instanceOf(fields), GROUP);
    return true;
  },

  // The library has no other way.
  async change(name, fields) {
    await clients.get(name).registerInstance(fields.service, instanceOf(fields), GROUP);
    return true;
  },

  async deregister(name, fields) {
    await clients.get(name).deregisterInstance(fields.service, instanceOf(fields), GROUP);
    return true;
  },

  async list(name, { service }) {
    return await clients.get(name).getAllInstances(service, GROUP, '', false);
  },

  // The library gives its listener all instances each time.
  async subscribe(name, { service }) {
    let known = new Map();
    clients.get(name).subscribe({ serviceName: service, groupName: GROUP }, hosts => {
      const now = new Map(hosts.map(host => [`${host.ip}:${host.port}`, JSON.stringify([host.weight, host.metadata])]));
      const tell = (event, instance) => put({ event, client: name, service, instance });
      for (const [one, what] of now) {
        if (!known.has(one)) tell('added', one);
        else if (known.get(one) !== what) tell('changed', one);
      }
      for (const one of known.keys()) if (!now.has(one)) tell('removed', one);
      known = now;
    });
    return true;
  },

  async close(name) {
    const client = clients.get(name);
    clients.delete(name);
    await client.close();
    return true;
  },
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { op, client, ...fields } = JSON.parse(line);
    try {
      put({ result: await ops[op](client, fields) });
    } catch (error) {
      put({ error: `${error.name}: ${error.message}` });
    }
  }
  process.exit(0);
}

main();
