#include "server/net/tls_files.h"

int tls_files_open(const struct options *o, struct tls_context **ret, struct error *e)
{
    const struct tls_files files = {.psk = o->tls_psk_file,
                                    .cert = o->tls_cert,
                                    .key = o->tls_key,
                                    .ca = o->tls_ca,
                                    .crl = o->tls_crl};
    *ret = NULL;
    if (!files.psk && !files.cert && !files.key && !files.ca && !files.crl)
        return 0;
    return tls_server_context(&files, ret, e);
}
